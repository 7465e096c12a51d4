//! Just enough of Rust's lexis to distinguish code from comments and texts.
//!
//! **Invariants**
//! - What comes out has the length and the lines of what went in, so offsets fit both.

/// The source with the inside of every comment, text and character literal blanked.
pub(crate) fn code_only(source: &str) -> String {
    let mut scan = Scan { bytes: source.as_bytes(), at: 0, out: Vec::with_capacity(source.len()) };
    while scan.at < scan.bytes.len() {
        scan.token();
    }
    String::from_utf8_lossy(&scan.out).into_owned()
}

/// The line of an offset, counted from one.
pub(crate) fn line_at(source: &str, offset: usize) -> usize {
    source.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// Every identifier and keyword with its offset.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + code[rest..].find(is_word)?;
        let end = code[start..].find(|c| !is_word(c)).map_or(code.len(), |length| start + length);
        rest = end;
        Some((start, &code[start..end]))
    })
}

/// The texts between quotes in a stretch of the source, with their offsets.
pub(crate) fn literals<'a>(
    source: &'a str,
    code: &str,
    from: usize,
    to: usize,
) -> Vec<(usize, &'a str)> {
    let quotes: Vec<usize> = code[from..to].match_indices('"').map(|(at, _)| from + at).collect();
    quotes.chunks_exact(2).map(|pair| (pair[0], &source[pair[0] + 1..pair[1]])).collect()
}

/// The offset just behind the bracket that closes the one at `open`.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// Whether a name may contain this.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

impl Scan<'_> {
    fn token(&mut self) {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(b"//") {
            let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            self.blank(length);
        } else if rest.starts_with(b"/*") {
            self.blank(block_comment(rest));
        } else if rest[0] == b'"' {
            self.quoted(text(rest));
        } else if rest[0] == b'\'' {
            match character(rest) {
                Some(length) => self.quoted(length),
                None => self.copy(1),
            }
        } else if rest[0].is_ascii_alphabetic() || rest[0] == b'_' {
            let word = rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_');
            let word = word.unwrap_or(rest.len());
            let is_raw = matches!(&rest[..word], b"r" | b"br" | b"cr");
            self.copy(word);
            if is_raw {
                self.raw_text();
            }
        } else {
            self.copy(1);
        }
    }

    /// A raw text, whose hashes have just been reached; a raw identifier has no quote behind them.
    fn raw_text(&mut self) {
        let rest = &self.bytes[self.at..];
        let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
        if rest.get(hashes) != Some(&b'"') {
            return;
        }
        let end: Vec<u8> = [b'"'].into_iter().chain(rest[..hashes].iter().copied()).collect();
        let body = &rest[hashes + 1..];
        let length = body.windows(end.len()).position(|part| part == end).unwrap_or(body.len());
        self.copy(hashes + 1);
        self.blank(length);
        self.copy(end.len());
    }

    fn quoted(&mut self, length: usize) {
        self.copy(1);
        self.blank(length.saturating_sub(2));
        self.copy(1);
    }

    fn copy(&mut self, length: usize) {
        let end = (self.at + length).min(self.bytes.len());
        self.out.extend_from_slice(&self.bytes[self.at..end]);
        self.at = end;
    }

    fn blank(&mut self, length: usize) {
        let end = (self.at + length).min(self.bytes.len());
        let kept = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
        self.out.extend(self.bytes[self.at..end].iter().map(kept));
        self.at = end;
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn text(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal, or nothing if this is a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|byte| *byte == b'\'')?;
        return Some(end + 4);
    }
    let width = match rest.get(1)? {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_blanked_and_code_is_kept() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y")"#, r#"f("    ")"#),
            (r##"f(r#"a"b"#)"##, r##"f(r#"   "#)"##),
            (r#"b"x" r"y" c"z""#, r#"b" " r" " c" ""#),
            ("r#type + 'a' + '\\'' + '\"'", "r#type + ' ' + '  ' + ' '"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("'é' x", "'  ' x"),
            ("\"open", "\"   n"),
        ];
        for (source, code) in cases {
            assert_eq!(code_only(source), code, "{source}");
        }
    }

    #[test]
    fn blanking_moves_nothing() {
        let source = include_str!("rust.rs");
        let code = code_only(source);
        assert_eq!(code.len(), source.len());
        assert_eq!(code.lines().count(), source.lines().count());
        assert!(!code.contains("Just enough"));
    }

    #[test]
    fn texts_are_found_where_the_code_has_them() {
        let source = r#"fn code() { "a_b" /* "no" */ "c" }"#;
        let code = code_only(source);
        let open = code.find('{').unwrap();
        let end = closing(&code, open);
        assert_eq!(end, source.len());
        assert_eq!(literals(source, &code, open, end), [(12, "a_b"), (29, "c")]);
    }

    #[test]
    fn words_come_with_their_offsets() {
        let found: Vec<_> = words("a::b_1 {c}").collect();
        assert_eq!(found, [(0, "a"), (3, "b_1"), (8, "c")]);
        assert_eq!(line_at("a\nb\nc", 4), 3);
    }
}
