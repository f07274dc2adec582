//! What each source file imports from the other files of the crate: by `use`, and by paths in its
//! code.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{is_word, tokens};

/// Path below `src/` and source text of each file.
pub(crate) type Sources = BTreeMap<String, String>;

/// A module's path from the root of the crate: `["cmd", "run"]`.
type ModulePath = Vec<String>;

/// A path in a source file that leads elsewhere in the crate.
#[derive(Debug)]
pub(crate) struct Import {
    /// File that has the path.
    pub(crate) from: String,
    /// File that the path leads to: that of the innermost module named in it.
    pub(crate) to: String,
    /// First name of the path, from the root of the crate.
    pub(crate) top: String,
    /// The path is in code that only tests are built from.
    pub(crate) in_tests: bool,
}

/// Returns all imports of `sources`, those from a file to itself left out.
pub(crate) fn imports(sources: &Sources) -> Vec<Import> {
    let files: BTreeMap<ModulePath, &str> = sources
        .keys()
        .filter(|file| *file != "main.rs")
        .map(|file| (module_of(file), file.as_str()))
        .collect();
    let parsed: Vec<File> = files
        .iter()
        .map(|(module, file)| File::parse(file, module, &sources[*file]))
        .collect();
    let test_modules: Vec<&ModulePath> =
        parsed.iter().flat_map(|file| &file.test_modules).collect();
    let mut found = Vec::new();
    for file in &parsed {
        let for_tests = test_modules
            .iter()
            .any(|test| file.module.starts_with(test));
        for reference in file.references(&files) {
            let to = innermost(&reference.path, &files).1;
            if to != file.name {
                found.push(Import {
                    from: file.name.to_owned(),
                    to: to.to_owned(),
                    top: reference.path[0].clone(),
                    in_tests: for_tests || reference.in_tests,
                });
            }
        }
    }
    found
}

/// Returns the module that a file is.
fn module_of(file: &str) -> ModulePath {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if path == "lib" {
        return Vec::new();
    }
    path.split('/').map(str::to_owned).collect()
}

/// Returns the innermost module on `path` that is a file, as its depth and its file.
fn innermost<'a>(path: &[String], files: &BTreeMap<ModulePath, &'a str>) -> (usize, &'a str) {
    (0..=path.len())
        .rev()
        .find_map(|depth| Some((depth, *files.get(&path[..depth])?)))
        .unwrap_or((0, "lib.rs"))
}

/// A path in the code of a file, from the root of the crate.
struct Reference {
    path: ModulePath,
    in_tests: bool,
}

/// A source file, and the names that lead out of it.
struct File<'a> {
    name: &'a str,
    module: ModulePath,
    tokens: Vec<Token<'a>>,
    /// Modules of their own file that only tests have.
    test_modules: BTreeSet<ModulePath>,
}

/// A token, and what it is part of.
struct Token<'a> {
    text: &'a str,
    /// Module around it, inline ones included.
    module: ModulePath,
    in_tests: bool,
}

/// The modules that a name stands for, by the module that has the name in scope.
type Names = BTreeMap<(ModulePath, String), ModulePath>;

impl<'a> File<'a> {
    fn parse(name: &'a str, module: &ModulePath, source: &'a str) -> Self {
        let texts = tokens(source);
        let in_tests = test_code(&texts);
        let mut tokens: Vec<Token> = Vec::new();
        let mut test_modules = BTreeSet::new();
        let mut current = module.clone();
        // Depth of braces at which each inline module ends.
        let (mut depth, mut ends) = (0, Vec::new());
        for (at, text) in texts.iter().enumerate() {
            tokens.push(Token {
                text,
                module: current.clone(),
                in_tests: in_tests[at],
            });
            match *text {
                "{" => {
                    if at >= 2 && texts[at - 2] == "mod" {
                        current.push(texts[at - 1].to_owned());
                        ends.push(depth);
                    }
                    depth += 1;
                }
                "}" => {
                    depth -= 1;
                    if ends.pop_if(|end| *end == depth).is_some() {
                        current.pop();
                    }
                }
                ";" if in_tests[at] && at >= 2 && texts[at - 2] == "mod" => {
                    test_modules.insert([&current[..], &[texts[at - 1].to_owned()]].concat());
                }
                _ => {}
            }
        }
        Self {
            name,
            module: module.clone(),
            tokens,
            test_modules,
        }
    }

    /// Returns the paths that lead to a file of the crate. A `use` of a whole module is none, for
    /// the paths that begin with its name are; that of a parent included, it may be there for a
    /// sibling's sake.
    fn references(&self, files: &BTreeMap<ModulePath, &str>) -> Vec<Reference> {
        let mut names = self.child_modules(files);
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            if !self.starts_use(at) {
                at += 1;
                continue;
            }
            let mut leaves = Vec::new();
            let start = at + 1;
            at = self.use_tree(start, &[], &mut leaves);
            let is_public = at > 0 && start >= 2 && ["pub", ")"].contains(&self.text(start - 2));
            for leaf in leaves {
                let Some(path) = self.absolute(&leaf.path, start, &names) else {
                    continue;
                };
                let is_module = innermost(&path, files).0 == path.len() && !path.is_empty();
                if is_module && !leaf.is_glob && !is_public {
                    let module = self.tokens[start].module.clone();
                    names.insert((module, leaf.name), path);
                } else if !path.is_empty() {
                    found.push(Reference {
                        path,
                        in_tests: self.tokens[start].in_tests,
                    });
                }
            }
        }
        found.extend(self.paths_in_code(&names));
        found
    }

    /// Returns the names of the modules that this file declares.
    fn child_modules(&self, files: &BTreeMap<ModulePath, &str>) -> Names {
        let declared = self.tokens.windows(3).filter(|tokens| {
            tokens[0].text == "mod" && tokens[1].text.starts_with(is_word) && tokens[2].text == ";"
        });
        let mut names = Names::new();
        for tokens in declared {
            let name = tokens[1].text.to_owned();
            let path = [&tokens[1].module[..], std::slice::from_ref(&name)].concat();
            if files.contains_key(&path) {
                names.insert((tokens[1].module.clone(), name), path);
            }
        }
        names
    }

    /// Returns the paths outside of `use` items that begin with a keyword or with one of `names`.
    fn paths_in_code(&self, names: &Names) -> Vec<Reference> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            if self.starts_use(at) {
                at = self.use_tree(at + 1, &[], &mut Vec::new());
                continue;
            }
            if !self.starts_path(at) {
                at += 1;
                continue;
            }
            let start = at;
            let mut path = vec![self.text(at)];
            at += 1;
            while self.text(at) == "::" && self.text(at + 1).starts_with(is_word) {
                path.push(self.text(at + 1));
                at += 2;
            }
            if let Some(path) = self.absolute(&path, start, names)
                && !path.is_empty()
            {
                found.push(Reference {
                    path,
                    in_tests: self.tokens[start].in_tests,
                });
            }
        }
        found
    }

    fn starts_path(&self, at: usize) -> bool {
        let before = |distance: usize| at.checked_sub(distance).map_or("", |at| self.text(at));
        // `pub(in crate::module)` tells who may see an item.
        let is_visibility = [before(3), before(2), before(1)] == ["pub", "(", "in"];
        self.text(at).starts_with(is_word)
            && self.text(at + 1) == "::"
            && !["::", "."].contains(&before(1))
            && !is_visibility
    }

    /// Returns the text of a token; an empty one after the last.
    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn starts_use(&self, at: usize) -> bool {
        // `impl Trait + use<'a>` is no item.
        self.text(at) == "use" && self.text(at + 1) != "<"
    }

    /// Reads a `use` tree from token `at`, adds its leaves, and returns the token after it.
    fn use_tree(&self, mut at: usize, above: &[&'a str], leaves: &mut Vec<Leaf<'a>>) -> usize {
        let mut path = above.to_vec();
        loop {
            match self.text(at) {
                "::" => at += 1,
                "{" => {
                    at += 1;
                    while !["}", ""].contains(&self.text(at)) {
                        at = self.use_tree(at, &path, leaves);
                        at += usize::from(self.text(at) == ",");
                    }
                    return at + 1;
                }
                "*" => {
                    leaves.push(Leaf::glob(path));
                    return at + 1;
                }
                word if word.starts_with(is_word) && word != "as" => {
                    // `{self}` names what stands before the braces.
                    if word != "self" || path.is_empty() {
                        path.push(word);
                    }
                    at += 1;
                }
                after => {
                    let name = if after == "as" { self.text(at + 1) } else { "" };
                    leaves.push(Leaf::item(path, name));
                    return if after == "as" { at + 2 } else { at };
                }
            }
        }
    }

    /// Returns the path that `path` means at token `at`, from the root of the crate; `None` if it
    /// leads to another crate.
    fn absolute(&self, path: &[&str], at: usize, names: &Names) -> Option<ModulePath> {
        let mut module = self.tokens[at].module.clone();
        let mut rest = path;
        match *path.first()? {
            "crate" => {
                module.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {}
            first => {
                // Inline modules see what is around them through `use super::*`.
                let known = (self.module.len()..=module.len())
                    .rev()
                    .find_map(|depth| names.get(&(module[..depth].to_vec(), first.to_owned())));
                module = known?.clone();
                rest = &path[1..];
            }
        }
        while let [first, after @ ..] = rest
            && *first == "super"
        {
            module.pop();
            rest = after;
        }
        module.extend(rest.iter().map(|&word| word.to_owned()));
        Some(module)
    }
}

/// One name that a `use` item brings.
struct Leaf<'a> {
    path: Vec<&'a str>,
    /// Name in this file.
    name: String,
    is_glob: bool,
}

impl<'a> Leaf<'a> {
    fn item(path: Vec<&'a str>, alias: &str) -> Self {
        let last = path.last().copied().unwrap_or_default();
        let name = if alias.is_empty() { last } else { alias };
        Self {
            name: name.to_owned(),
            path,
            is_glob: false,
        }
    }

    fn glob(path: Vec<&'a str>) -> Self {
        Self {
            name: String::new(),
            path,
            is_glob: true,
        }
    }
}

/// Returns for each token whether it belongs to an item under `#[cfg(test)]`.
fn test_code(texts: &[&str]) -> Vec<bool> {
    const TEST_ONLY: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut in_tests = vec![false; texts.len()];
    let mut at = 0;
    while at < texts.len() {
        if !texts[at..].starts_with(&TEST_ONLY) {
            at += 1;
            continue;
        }
        let end = at + TEST_ONLY.len() + item_length(&texts[at + TEST_ONLY.len()..]);
        in_tests[at..end].fill(true);
        at = end;
    }
    in_tests
}

/// Returns the number of tokens of the item at the start of `texts`, which ends at a semicolon or a
/// closing brace.
fn item_length(texts: &[&str]) -> usize {
    let is_use = texts.iter().find(|text| **text == "use" || **text == "{") == Some(&"use");
    let mut depth = 0;
    for (at, text) in texts.iter().enumerate() {
        match *text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        let is_end = *text == ";" || (*text == "}" && !is_use);
        if depth == 0 && is_end {
            return at + 1;
        }
    }
    texts.len()
}
