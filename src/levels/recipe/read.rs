//! Finds what a file sets, by its form.

use super::{data::Recipe, form::Form, lines, script, yaml};

/// Reads a file. Its name helps to tell its form.
pub fn read(name: &str, text: &str) -> Recipe {
    let text = text.trim_start_matches('\u{feff}');
    let form = Form::of(name, text);
    match form {
        Form::NcclConf => lines::read_conf(text),
        Form::EnvFile => lines::read_env_file(text),
        Form::Script => script::read(text),
        Form::Yaml => yaml::read(text),
    }
}
