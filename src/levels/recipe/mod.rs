//! Files that set variables for a run: an env file, an nccl.conf, a shell or batch script, a
//! Kubernetes or Compose file. [`read`] finds what such a file sets, without running it, and
//! [`check`] audits that.

mod check;
mod data;
mod form;
mod lines;
mod read;
mod script;
mod shell;
mod variable;
mod yaml;

#[cfg(test)]
mod tests;

pub use check::{CannotTell, RecipeCheck, RecipeFinding, check};
pub use data::{Assignment, Recipe, Unseen};
pub use form::Form;
pub use read::read;
