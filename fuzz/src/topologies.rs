//! How boxes are wired, as NCCL and `nvidia-smi` tell it.

use ncclsweep::topology::{Topology, matrix, parse_nvidia_smi, parse_xml, tree};

use super::{refused, text};

/// NCCL's dump. A dump that is cut is refused, or nothing of it was lost.
pub fn xml(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let whole = match parse_xml("dump.xml", text) {
        Ok(topology) => topology,
        Err(error) => return refused(&error, text),
    };
    holds(&whole);
    for part in cuts(text) {
        if let Ok(read) = parse_xml("dump.xml", part) {
            assert_eq!(read, whole, "cut after {} of {} bytes", part.len(), text.len());
        }
    }
}

/// `nvidia-smi topo -m`. What is read prints as a matrix that reads the same.
pub fn nvidia_smi(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let whole = match parse_nvidia_smi("topo.txt", text) {
        Ok(topology) => topology,
        Err(error) => return refused(&error, text),
    };
    holds(&whole);
    let again = parse_nvidia_smi("matrix", &matrix(&whole)).expect("what is printed is read");
    same_paths(&again, &whole);
    for part in cuts(text) {
        let Ok(read) = parse_nvidia_smi("topo.txt", part) else { continue };
        // Rows of adapters may be missing, so what a GPU's row says of one last can lose a digit unseen.
        assert_eq!(read.gpus.len(), whole.gpus.len());
        assert!((0..read.gpus.len()).all(|a| (0..a).all(|b| read.path(a, b) == whole.path(a, b))));
    }
}

/// A few beginnings of a text.
fn cuts(text: &str) -> impl Iterator<Item = &str> {
    let at = |part: usize| text.floor_char_boundary(text.len() * part / 8);
    (1..8).map(at).chain([text.len().saturating_sub(1)]).map(|end| &text[..text.floor_char_boundary(end)])
}

fn holds(topology: &Topology) {
    let gpus = topology.gpus.len();
    for a in 0..gpus.min(64) {
        for b in 0..gpus.min(64) {
            assert_eq!(topology.path(a, b), topology.path(b, a));
        }
    }
    _ = (matrix(topology), tree(topology), topology.longest_path());
    let stored = serde_json::to_string(topology).expect("a topology can be stored");
    assert_eq!(serde_json::from_str::<Topology>(&stored).expect("a stored topology is read"), *topology);
}

fn same_paths(one: &Topology, other: &Topology) {
    assert_eq!((one.gpus.len(), one.nics.len()), (other.gpus.len(), other.nics.len()));
    for a in 0..one.gpus.len() {
        assert!((0..one.gpus.len()).all(|b| one.path(a, b) == other.path(a, b)));
        assert!((0..one.nics.len()).all(|nic| one.path_to_nic(a, nic) == other.path_to_nic(a, nic)));
    }
}
