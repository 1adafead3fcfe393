//! Integers as C reads them: NCCL passes values to `strtoll(text, …, 0)` and never looks at what is left over.

/// What `strtoll` makes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<'a> {
    /// The number; 0 where none stands.
    pub value: i64,
    /// What follows it.
    pub rest: &'a str,
    /// Whether there is a digit at all.
    pub digits: bool,
    /// Whether it does not fit: NCCL then keeps its default.
    pub overflow: bool,
}

/// Reads `text` as `strtoll` with base 0 does: blanks, a sign, `0x` hexadecimal, `0` octal, else decimal, up to the first
/// character that is no digit.
#[must_use]
pub fn strtoll(text: &str) -> Number<'_> {
    let none = Number { value: 0, rest: text, digits: false, overflow: false };
    let body = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (negative, body) = match body.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, body.strip_prefix('+').unwrap_or(body)),
    };
    let hexadecimal = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X"));
    let hexadecimal = hexadecimal.filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (radix, body) = match hexadecimal {
        Some(rest) => (16, rest),
        None if body.starts_with('0') => (8, body),
        None => (10, body),
    };
    let end = body.find(|c: char| !c.is_digit(radix)).unwrap_or(body.len());
    let (digits, rest) = body.split_at(end);
    if digits.is_empty() {
        return none;
    }
    let parsed = i128::from_str_radix(digits, radix).unwrap_or(i128::MAX);
    let signed = if negative { -parsed } else { parsed };
    match i64::try_from(signed) {
        Ok(value) => Number { value, rest, digits: true, overflow: false },
        Err(_) => Number { value: if negative { i64::MIN } else { i64::MAX }, rest, digits: true, overflow: true },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_read_as_c_does() {
        let read = |text| (strtoll(text).value, strtoll(text).rest);
        assert_eq!(read("4M"), (4, "M"));
        assert_eq!(read("16777216"), (16_777_216, ""));
        assert_eq!(read(" 0x10 # hex"), (16, " # hex"));
        assert_eq!(read("010"), (8, ""));
        assert_eq!(read("08"), (0, "8"));
        assert_eq!(read("0x"), (0, "x"));
        assert_eq!(read("-2\r"), (-2, "\r"));
        assert_eq!(read("abc"), (0, "abc"));
        assert_eq!(read(""), (0, ""));
        assert!(!strtoll("abc").digits && !strtoll("- 1").digits && strtoll("0").digits);
        assert!(strtoll("99999999999999999999").overflow && !strtoll("9223372036854775807").overflow);
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_numbers_come_back(text in ".{0,30}", number in any::<i64>()) {
            let _ = strtoll(&text);
            prop_assert_eq!(strtoll(&number.to_string()).value, number);
        }
    }
}
