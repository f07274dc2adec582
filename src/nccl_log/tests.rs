//! The forms of each version, and what folding bears.
