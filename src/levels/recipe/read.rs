//! Finds what a file sets, by its form.

use super::{data::Recipe, form::Form, lines, script, yaml};
use crate::env;

/// Reads a file. Its name helps to tell its form. Values of secrets are left out.
pub fn read(name: &str, text: &str) -> Recipe {
    let text = text.trim_start_matches('\u{feff}');
    let form = Form::of(name, text);
    let mut recipe = match form {
        Form::NcclConf => lines::read_conf(text),
        Form::EnvFile => lines::read_env_file(text),
        Form::Script => script::read(text),
        Form::Yaml => yaml::read(text),
    };
    for one in &mut recipe.assignments {
        if env::is_secret(&one.name) {
            one.written = env::NOT_RECORDED.to_owned();
            one.value = one.value.as_ref().map(|_| one.written.clone());
        }
    }
    recipe
}
