//! The words of a shell script, with their lines. Nothing is expanded: a part of a word that only
//! the shell can know is marked as such.

use super::variable;

/// A piece of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word.
    Word(Word),
    /// A comment with what follows `#`, and its line.
    Comment(String, usize),
    /// A document in the script, and the line where it begins.
    HereDocument(String, usize),
    /// The end of a command: a new line, `;`, `&` or `|`.
    End,
    /// `&&` or `||`: whether the next command runs depends on this one.
    And,
    /// See [`Token::And`].
    Or,
    /// `(`
    Open,
    /// `)`
    Close,
    /// A redirection; the next word is a file.
    Redirection,
}

/// A word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
    pub(super) line: usize,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Text, without its quotes.
    Text(String),
    /// The value of a variable.
    Variable(String),
    /// What only the shell knows, as it is written.
    Unknown(String),
}

impl Word {
    /// Returns the text of a word of which nothing is expanded.
    pub(super) fn text(&self) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            let Part::Text(more) = part else { return None };
            text += more;
        }
        Some(text)
    }

    /// Returns the word as it is written, without its quotes.
    pub(super) fn written(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(more) | Part::Unknown(more) => text += more,
                Part::Variable(name) => text += &format!("${name}"),
            }
        }
        text
    }

    /// Splits the word at the first `=` of its first part.
    pub(super) fn assignment(&self) -> Option<(String, Word)> {
        let Part::Text(first) = self.parts.first()? else {
            return None;
        };
        let (name, value) = variable::assignment(first)?;
        let mut parts = vec![Part::Text(value.to_owned())];
        parts.extend_from_slice(&self.parts[1..]);
        let line = self.line;
        Some((name.to_owned(), Word { parts, line }))
    }

    fn push(&mut self, letter: char) {
        if let Some(Part::Text(text)) = self.parts.last_mut() {
            text.push(letter);
        } else {
            self.parts.push(Part::Text(letter.to_string()));
        }
    }

    /// Makes an empty word one that exists: `''`.
    fn begin(&mut self) {
        if self.parts.is_empty() {
            self.parts.push(Part::Text(String::new()));
        }
    }
}

/// The most letters of a quotation; an apostrophe in a text that is no script opens one too.
const LONGEST_QUOTATION: usize = 20_000;

/// Returns the tokens of a script whose first line has this number.
pub(super) fn tokens(text: &str, first_line: usize) -> Vec<Token> {
    let mut lexer = Lexer {
        letters: text.chars().collect(),
        at: 0,
        line: first_line,
        word: Word::default(),
        tokens: Vec::new(),
        documents: Vec::new(),
    };
    while let Some(letter) = lexer.next() {
        lexer.read(letter);
    }
    lexer.end_word();
    lexer.tokens.push(Token::End);
    lexer.tokens
}

struct Lexer {
    letters: Vec<char>,
    at: usize,
    line: usize,
    word: Word,
    tokens: Vec<Token>,
    /// The last lines of documents that begin in the next line.
    documents: Vec<String>,
}

impl Lexer {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += 1;
        if letter == '\n' {
            self.line += 1;
        }
        Some(letter)
    }

    fn next_if(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.next();
        }
        is_next
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if !word.parts.is_empty() {
            self.tokens.push(Token::Word(word));
        }
    }

    fn end(&mut self, token: Token) {
        self.end_word();
        self.tokens.push(token);
    }

    fn read(&mut self, letter: char) {
        if self.word.parts.is_empty() {
            self.word.line = self.line;
        }
        match letter {
            '\n' => {
                self.end(Token::End);
                for last in std::mem::take(&mut self.documents) {
                    self.read_document(&last);
                }
            }
            ';' => self.end(Token::End),
            c if c.is_whitespace() => self.end_word(),
            '#' if self.word.parts.is_empty() => self.read_comment(),
            '\\' => self.read_escape(),
            '\'' => self.read_single_quotes(),
            '"' => self.read_double_quotes(),
            '$' | '`' => self.read_expansion(letter),
            '&' | '|' => self.read_operator(letter),
            '<' if self.peek() == Some('<') => self.read_document_mark(),
            '<' | '>' => self.read_redirection(),
            '(' if self.is_array() => {
                let text = self.take_until_closed('(', ')');
                self.word.parts.push(Part::Unknown(format!("({text}")));
            }
            '(' => self.end(Token::Open),
            ')' => self.end(Token::Close),
            c => self.word.push(c),
        }
    }

    fn read_comment(&mut self) {
        let line = self.line;
        let mut text = String::new();
        while let Some(letter) = self.peek()
            && letter != '\n'
        {
            text.push(letter);
            self.next();
        }
        self.tokens.push(Token::Comment(text, line));
    }

    fn read_escape(&mut self) {
        match self.next() {
            // The command goes on in the next line.
            Some('\n') | None => {}
            Some('\r') if self.peek() == Some('\n') => {
                self.next();
            }
            Some(letter) => self.word.push(letter),
        }
    }

    /// Returns the distance to the end of a quotation, if it ends.
    fn quotation(&self, quote: char) -> Option<usize> {
        let mut is_escaped = false;
        let rest = self.letters[self.at..].iter().take(LONGEST_QUOTATION);
        for (distance, letter) in rest.enumerate() {
            if *letter == quote && !is_escaped {
                return Some(distance);
            }
            is_escaped = *letter == '\\' && !is_escaped && quote == '"';
        }
        None
    }

    fn read_single_quotes(&mut self) {
        let is_in_word = self.at > 1 && self.letters[self.at - 2].is_alphanumeric();
        let quotation = self.quotation('\'').filter(|length| {
            // An apostrophe, as in a text that is no script, does not end on its line.
            let quoted = &self.letters[self.at..self.at + length];
            !is_in_word || !quoted.contains(&'\n')
        });
        let Some(length) = quotation else {
            self.word.push('\'');
            return;
        };
        self.word.begin();
        for _ in 0..length {
            if let Some(letter) = self.next() {
                self.word.push(letter);
            }
        }
        self.next();
    }

    fn read_double_quotes(&mut self) {
        let Some(length) = self.quotation('"') else {
            self.word.push('"');
            return;
        };
        let end = self.at + length;
        self.word.begin();
        while self.at < end {
            match self.next() {
                Some('\\') => {
                    if let Some(letter) = self.next()
                        && letter != '\n'
                    {
                        if !['"', '\\', '$', '`'].contains(&letter) {
                            self.word.push('\\');
                        }
                        self.word.push(letter);
                    }
                }
                Some(letter @ ('$' | '`')) => self.read_expansion(letter),
                Some(letter) => self.word.push(letter),
                None => break,
            }
        }
        // An expansion may have gone past the end.
        self.next_if('"');
    }

    fn read_expansion(&mut self, letter: char) {
        if letter == '`' {
            let mut text = String::from('`');
            while let Some(letter) = self.next() {
                text.push(letter);
                if letter == '`' {
                    break;
                }
            }
            self.word.parts.push(Part::Unknown(text));
            return;
        }
        match self.peek() {
            Some('(') => {
                self.next();
                let text = self.take_until_closed('(', ')');
                self.word.parts.push(Part::Unknown(format!("$({text}")));
            }
            Some('{') => {
                self.next();
                let text = self.take_until_closed('{', '}');
                let inside = text.trim_end_matches('}');
                self.word.parts.push(if variable::is_name(inside) {
                    Part::Variable(inside.to_owned())
                } else {
                    Part::Unknown(format!("${{{text}"))
                });
            }
            Some(first) if first.is_ascii_alphabetic() || first == '_' => {
                let mut name = String::new();
                while let Some(letter) = self.peek()
                    && (letter.is_ascii_alphanumeric() || letter == '_')
                {
                    name.push(letter);
                    self.next();
                }
                self.word.parts.push(Part::Variable(name));
            }
            Some(special) if special.is_ascii_digit() || "@*#?$!-".contains(special) => {
                self.next();
                self.word.parts.push(Part::Unknown(format!("${special}")));
            }
            // `$'…'` and `$"…"` are quotations.
            Some('\'' | '"') => {}
            _ => self.word.push('$'),
        }
    }

    /// Takes the text up to the bracket that closes one that was read, with it.
    fn take_until_closed(&mut self, open: char, close: char) -> String {
        let mut depth = 1;
        let mut text = String::new();
        while depth > 0
            && let Some(letter) = self.next()
        {
            text.push(letter);
            if letter == open {
                depth += 1;
            } else if letter == close {
                depth -= 1;
            }
        }
        text
    }

    /// Returns whether the word so far is `NAME=`, so that a bracket begins an array.
    fn is_array(&self) -> bool {
        let text = self.word.text();
        text.is_some_and(|text| text.ends_with('=') && variable::is_name(&text[..text.len() - 1]))
    }

    fn read_operator(&mut self, letter: char) {
        if self.next_if(letter) {
            self.end(if letter == '&' { Token::And } else { Token::Or });
        } else if letter == '&' && self.peek() == Some('>') {
            self.next();
            self.read_redirection();
        } else {
            self.end(Token::End);
        }
    }

    /// Reads what follows the first `<` of `<<EOF` or `<<<text`.
    fn read_document_mark(&mut self) {
        self.next();
        if self.next_if('<') {
            self.end(Token::Redirection);
            return;
        }
        self.end_word();
        self.next_if('-');
        while self.peek().is_some_and(|c| c == ' ' || c == '\t') {
            self.next();
        }
        let mut last = String::new();
        while let Some(letter) = self.peek()
            && !letter.is_whitespace()
            && !";&|<>()".contains(letter)
        {
            last.push(letter);
            self.next();
        }
        let last = last.replace(['\'', '"', '\\'], "");
        if !last.is_empty() {
            self.documents.push(last);
        }
    }

    /// Reads a document up to its last line.
    fn read_document(&mut self, last: &str) {
        let first_line = self.line;
        let mut text = String::new();
        let mut line = String::new();
        while let Some(letter) = self.next() {
            if letter != '\n' {
                line.push(letter);
                continue;
            }
            if line.trim() == last {
                break;
            }
            text += &std::mem::take(&mut line);
            text.push('\n');
        }
        if line.trim() != last {
            text += &line;
        }
        self.tokens.push(Token::HereDocument(text, first_line));
    }

    fn read_redirection(&mut self) {
        while let Some(letter) = self.peek()
            && "<>&|".contains(letter)
        {
            self.next();
        }
        self.end(Token::Redirection);
    }
}
