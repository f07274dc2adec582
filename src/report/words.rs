//! [`Words`]: words that many rows have, each once.

use std::collections::HashMap;

/// The number of a word in [`Words`].
pub(super) type WordId = u32;

/// Columns with words.
const WORD_COLUMNS: usize = 10;

/// Words that many rows have, each once.
#[derive(Default)]
pub(super) struct Words {
    pub(super) all: Vec<String>,
    ids: HashMap<String, WordId>,
    /// The latest word of each column, which the next row is likely to have too.
    latest: [WordId; WORD_COLUMNS],
}

impl Words {
    /// Returns the number of a word in one of the columns with words.
    pub(super) fn id(&mut self, column: usize, word: &str) -> WordId {
        let latest = self.latest[column];
        if self
            .all
            .get(latest as usize)
            .is_some_and(|known| known == word)
        {
            return latest;
        }
        self.latest[column] = self.id_of(word);
        self.latest[column]
    }

    fn id_of(&mut self, word: &str) -> WordId {
        if let Some(id) = self.ids.get(word) {
            return *id;
        }
        let id = self.all.len() as WordId;
        self.all.push(word.to_owned());
        self.ids.insert(word.to_owned(), id);
        id
    }
}
