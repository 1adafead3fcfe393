//! The run's token: who has it is an agent of the run.
//!
//! It never crosses the network: each side proves that it has it by answering the other's random challenge.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::{Error, Result};
use crate::regular;

/// The variable that holds it.
pub const VARIABLE: &str = "NCCLSWEEP_TOKEN";

/// The least that counts as random: 96 bits in base 64.
const LEAST: usize = 16;
const MOST: u64 = 4096;

/// Random bytes that are used once.
pub type Nonce = [u8; 32];
/// That one holds the token.
pub type Proof = [u8; 32];

/// The token.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// From a file that nobody else may read, else from the environment.
    pub fn find(file: Option<&Path>, variable: Option<String>) -> Result<Self> {
        let text = match (file, variable) {
            (Some(file), _) => read(file)?,
            (None, Some(text)) => text,
            (None, None) => {
                return Err(Error::usage("several agents need a token that only they hold").help(format!(
                    "export {VARIABLE}=$(openssl rand -hex 16), and `mpirun -x {VARIABLE} …`; or --rendezvous-token-file FILE; \
                     --rendezvous none measures without the others"
                )));
            }
        };
        let text = text.trim();
        if text.len() < LEAST {
            return Err(Error::usage(format!("the token of the agents has fewer than {LEAST} characters"))
                .help(format!("{VARIABLE}=$(openssl rand -hex 16)")));
        }
        Ok(Self(text.to_owned()))
    }

    /// The proof of one side, for what it says under the nonces of both.
    #[must_use]
    pub fn prove(&self, side: &str, nonces: [&Nonce; 2], says: &[u8]) -> Proof {
        self.mac(side, nonces, says).finalize().into_bytes().into()
    }

    /// Whether the other side proved that.
    #[must_use]
    pub fn holds(&self, proof: &Proof, side: &str, nonces: [&Nonce; 2], says: &[u8]) -> bool {
        self.mac(side, nonces, says).verify_slice(proof).is_ok()
    }

    fn mac(&self, side: &str, nonces: [&Nonce; 2], says: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("a key of any length is taken");
        // Everything but the last part has a length of its own, so no two say the same.
        for part in [side.as_bytes(), b"\0", nonces[0], nonces[1], says] {
            mac.update(part);
        }
        mac
    }
}

/// A nonce that nobody has seen before.
pub fn nonce() -> std::io::Result<Nonce> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(std::io::Error::other)?;
    Ok(nonce)
}

fn read(file: &Path) -> Result<String> {
    let failed =
        |error: std::io::Error| Error::usage(format!("cannot read the token in {}", file.display())).because(error);
    let found = std::fs::metadata(file).map_err(failed)?;
    if found.permissions().mode() & 0o077 != 0 {
        return Err(Error::usage(format!("others may read the token in {}", file.display()))
            .help(format!("chmod 600 {}", file.display())));
    }
    if found.len() > MOST {
        return Err(Error::usage(format!("{} is no token: {} bytes", file.display(), found.len())));
    }
    regular::text(file, MOST).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token::find(None, Some(text.to_owned())).unwrap()
    }

    #[test]
    fn a_proof_holds_for_its_side_its_nonces_and_its_words_alone() {
        let (token, other) = (token("0123456789abcdef"), token("0123456789abcdeF"));
        let (one, two) = (nonce().unwrap(), nonce().unwrap());
        let proof = token.prove("agent", [&one, &two], b"1");
        assert!(token.holds(&proof, "agent", [&one, &two], b"1"));
        assert!(!other.holds(&proof, "agent", [&one, &two], b"1"));
        assert!(!token.holds(&proof, "first", [&one, &two], b"1"));
        assert!(!token.holds(&proof, "agent", [&two, &one], b"1"));
        assert!(!token.holds(&proof, "agent", [&one, &two], b"2"));
        assert_ne!(one, two);
    }

    #[test]
    fn no_token_a_short_one_and_one_that_others_read_are_refused() {
        assert!(Token::find(None, None).unwrap_err().next_step().unwrap().contains("openssl rand"));
        assert!(Token::find(None, Some(" short \n".into())).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789abcdef\n").unwrap();
        let allow = |mode| std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        allow(0o640);
        assert!(Token::find(Some(file.path()), None).unwrap_err().next_step().unwrap().contains("chmod 600"));
        allow(0o600);
        assert_eq!(Token::find(Some(file.path()), None).unwrap().0, "0123456789abcdef");
        assert!(Token::find(Some(Path::new("/nonexistent/token")), None).is_err());
        let pipe = file.path().with_extension("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR).unwrap();
        let error = Token::find(Some(&pipe), None).unwrap_err();
        std::fs::remove_file(&pipe).unwrap();
        assert!(error.message().contains("cannot read the token"), "nobody is waited for: {error}");
        assert!(!format!("{:?}", token("0123456789abcdef")).contains("0123"), "no log shows it");
    }
}
