//! Documents with a few values changed: bytes changed at random would leave no JSON of most of them.

use serde_json::{Value, json};

/// The document itself when the input is one, else `document` (JSON, a value a line) with the changes that the input asks
/// for: five bytes each, for the line, the value in it by its number, and what becomes of it.
pub fn edited(document: &str, input: &[u8]) -> Vec<u8> {
    if input.first().is_some_and(|first| matches!(first, b'{' | b'[' | b'"')) {
        return input.to_vec();
    }
    let mut lines: Vec<Value> = document.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for step in input.chunks_exact(5).take(16) {
        let line = usize::from(step[0]) % lines.len();
        if step[3] == u8::MAX {
            let copy = lines[line].clone();
            lines.insert(line, copy);
            continue;
        }
        let at = usize::from(u16::from_le_bytes([step[1], step[2]])) % count(&lines[line]);
        change(&mut lines[line], &mut { at }, step[3], step[4]);
    }
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

/// How many values there are, the whole one among them.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the value that is `left` values further on; whether it was found.
fn change(value: &mut Value, left: &mut usize, how: u8, with: u8) -> bool {
    if *left == 0 {
        replace(value, how, with);
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| change(item, left, how, with)),
        Value::Object(fields) => fields.iter_mut().any(|(_, field)| change(field, left, how, with)),
        _ => false,
    }
}

fn replace(value: &mut Value, how: u8, with: u8) {
    let number = i64::from(with);
    match (how % 16, &mut *value) {
        (0, Value::Array(items)) if !items.is_empty() => _ = items.remove(usize::from(with) % items.len()),
        (1, Value::Array(items)) if !items.is_empty() => {
            let copy = items[usize::from(with) % items.len()].clone();
            items.push(copy);
        }
        (2, Value::Array(items)) => items.reverse(),
        (0..=2, Value::Object(fields)) if !fields.is_empty() => {
            let name = fields.keys().nth(usize::from(with) % fields.len()).cloned().unwrap_or_default();
            fields.shift_remove(&name);
        }
        (3, Value::String(text)) => text.push(char::from(with)),
        (4, Value::String(text)) => text.truncate(text.floor_char_boundary(usize::from(with))),
        (5, Value::String(text)) if text.len() < 200 => *text = text.repeat(usize::from(with)),
        (3, _) => *value = json!(number),
        (4, _) => *value = json!(-number),
        (5, _) => *value = json!(f64::from(with) / 16.0),
        (6, _) => *value = json!(u64::MAX - u64::from(with)),
        (7, _) => *value = json!(1u64 << (with % 64)),
        (8, _) => *value = json!(10f64.powi(i32::from(with) - 128)),
        (9, _) => *value = json!(-(10f64.powi(i32::from(with) - 128))),
        (10, _) => *value = Value::Null,
        (11, _) => *value = json!([]),
        (12, _) => *value = json!({}),
        (13, _) => *value = json!(""),
        (14, _) => *value = json!(["", "\u{1b}[31m<b>", "../..", "a\nb", "é\u{202e}"][usize::from(with) % 5]),
        (_, _) => *value = json!(with & 1 == 0),
    }
}
