//! Parses method expressions: a small language of names, paths and combinations.
//!
//! ```text
//! method      = name | path | prefix ':' text | name '(' argument { ',' argument } ')'
//! argument    = option '=' text | [ weight '*' ] method
//! ```
//!
//! Text is bare up to the next `,`, `(`, `)` or `"`, trimmed, or quoted with `"`, with `\` before `"` and `\`. A
//! quoted method is always a path.

use super::bag_of_words::Vocabulary;
use super::error::MethodError;
use super::expression::{ApiModel, COMBINATIONS, ChatModel, DEFAULT_DEPTH, Method, NAMES};
use super::fusion::Fusion;
use super::precomputed::Similarity;
use std::str::FromStr;

/// Maximum nesting of methods: far more than is useful, few enough for the stack.
const MAX_NESTING: usize = 16;

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Self, MethodError> {
        let mut parser = Parser { text, at: 0, nesting: 0 };
        let method = parser.method()?;
        parser.skip_space();
        if parser.at < text.len() { Err(parser.error("the end of the method")) } else { Ok(method) }
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Number of bytes parsed.
    at: usize,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Consumes a character if it comes next, after optional white space.
    fn reads(&mut self, wanted: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    /// The error that the next text, after optional white space, is not what was expected.
    fn error(&self, expected: impl Into<String>) -> MethodError {
        let rest = self.rest().trim_start();
        let found = rest.chars().next().map_or("the end".to_owned(), |next| format!("{next:?}"));
        self.error_at(self.text.len() - rest.len(), expected, found)
    }

    fn error_at(&self, at: usize, expected: impl Into<String>, found: String) -> MethodError {
        let at = self.text[..at].chars().count();
        MethodError { text: self.text.to_owned(), at, expected: expected.into(), found }
    }

    /// The text up to the next delimiter, trimmed.
    fn bare(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let bare = &rest[..rest.find([',', '(', ')', '"']).unwrap_or(rest.len())];
        self.at += bare.len();
        bare.trim_end()
    }

    fn quoted(&mut self) -> Result<String, MethodError> {
        let begin = self.at;
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((position, next)) = characters.next() {
            match next {
                '"' => {
                    self.at += position + 1;
                    return Ok(text);
                }
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                other => text.push(other),
            }
        }
        Err(self.error_at(begin, "a closing \" for this one", "none".to_owned()))
    }

    /// Non-empty bare or quoted text.
    fn words(&mut self, what: &str) -> Result<String, MethodError> {
        self.skip_space();
        let begin = self.at;
        let text = if self.rest().starts_with('"') { self.quoted()? } else { self.bare().to_owned() };
        if text.is_empty() {
            self.at = begin;
            return Err(self.error(what));
        }
        Ok(text)
    }

    fn method(&mut self) -> Result<Method, MethodError> {
        self.skip_space();
        if self.rest().starts_with('"') {
            return Ok(Method::Model(self.words("the path of a model")?.into()));
        }
        let begin = self.at;
        let name = self.bare();
        if self.rest().starts_with('(') {
            return self.call(begin, name);
        }
        if let Some((_, method)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(method.clone());
        }
        if COMBINATIONS.contains(&name) {
            return Err(self.error(format!("( after {name}; for a path write ./{name}")));
        }
        let Some((prefix, _)) =
            name.split_once(':').filter(|(prefix, _)| ["vectors", "run", "api", "chat"].contains(prefix))
        else {
            if name.is_empty() {
                self.at = begin;
                return Err(self.error("a method"));
            }
            return Ok(Method::Model(name.into()));
        };
        self.at = begin + prefix.len() + 1;
        Ok(match prefix {
            "vectors" => Method::Vectors {
                directory: self.words("a directory of vectors")?.into(),
                similarity: Similarity::default(),
            },
            "run" => Method::Run(self.words("a run's file")?.into()),
            "chat" => {
                Method::Chat(ChatModel { model: self.words("a model's name")?, ..ChatModel::default() })
            }
            _ => Method::Api(ApiModel { model: self.words("a model's name")?, ..ApiModel::default() }),
        })
    }

    /// Parses the arguments of `name`, which begins at `begin`, from its `(` on.
    fn call(&mut self, begin: usize, name: &str) -> Result<Method, MethodError> {
        if self.nesting == MAX_NESTING {
            return Err(self.error(format!("at most {MAX_NESTING} methods within one another")));
        }
        self.nesting += 1;
        let method = match name {
            "bow" => {
                let mut vocabulary = Vocabulary::Corpus;
                self.arguments(|parser, option| match option {
                    Some("vocabulary") => parser.choice(
                        &mut vocabulary,
                        &[("corpus", Vocabulary::Corpus), ("positives", Vocabulary::Positives)],
                    ),
                    _ => Err(parser.error("vocabulary = corpus or positives")),
                })?;
                Method::BagOfWords(vocabulary)
            }
            "api" => {
                let mut api = ApiModel::default();
                self.arguments(|parser, option| {
                    match option {
                        None if api.model.is_empty() => api.model = parser.words("a model's name")?,
                        Some("query") => api.query_prefix = parser.text()?,
                        Some("document") => api.document_prefix = parser.text()?,
                        Some("dimensions") => {
                            api.dimensions = Some(parser.number("a number of 1 or more", |n| *n > 0)?)
                        }
                        _ => return Err(parser.error("query = …, document = … or dimensions = …")),
                    }
                    Ok(())
                })?;
                if api.model.is_empty() {
                    return Err(self.error_at(begin, "a model's name in api(…)", "none".to_owned()));
                }
                Method::Api(api)
            }
            "chat" => {
                let mut chat = ChatModel::default();
                self.arguments(|parser, option| {
                    match option {
                        None if chat.model.is_empty() => chat.model = parser.words("a model's name")?,
                        Some("judge") => chat.judge = parser.words("the name of a judge")?,
                        Some("language") => chat.language = parser.words("a language")?,
                        Some("prompts") => {
                            chat.prompts = Some(parser.words("a directory of prompts")?.into())
                        }
                        Some("temperature") => {
                            let fits = |temperature: &f64| (0.0..=2.0).contains(temperature);
                            chat.temperature = Some(parser.number("a temperature from 0 to 2", fits)?);
                        }
                        _ => {
                            let options = "judge = …, language = …, prompts = … or temperature = …";
                            return Err(parser.error(options));
                        }
                    }
                    Ok(())
                })?;
                if chat.model.is_empty() {
                    return Err(self.error_at(begin, "a model's name in chat(…)", "none".to_owned()));
                }
                Method::Chat(chat)
            }
            "vectors" => {
                let (mut directory, mut similarity) = (None, Similarity::default());
                self.arguments(|parser, option| match option {
                    None if directory.is_none() => {
                        directory = Some(parser.words("a directory of vectors")?.into());
                        Ok(())
                    }
                    Some("similarity") => parser
                        .choice(&mut similarity, &[("cosine", Similarity::Cosine), ("dot", Similarity::Dot)]),
                    _ => Err(parser.error("similarity = cosine or dot")),
                })?;
                let missing = || self.error_at(begin, "a directory in vectors(…)", "none".to_owned());
                Method::Vectors { directory: directory.ok_or_else(missing)?, similarity }
            }
            "rerank" => {
                let (mut methods, mut depth) = (Vec::new(), DEFAULT_DEPTH);
                self.arguments(|parser, option| {
                    match option {
                        None if methods.len() < 2 => methods.push(Box::new(parser.method()?)),
                        Some("depth") => {
                            depth = parser.number("a number of 1 or more", |depth| *depth > 0)?
                        }
                        _ => return Err(parser.error("two methods and depth = …")),
                    }
                    Ok(())
                })?;
                let found = format!("{}", methods.len());
                let Ok([first, second]) = <[Box<Method>; 2]>::try_from(methods) else {
                    return Err(self.error_at(begin, "two methods in rerank(…)", found));
                };
                Method::Rerank { first, second, depth }
            }
            _ => self.fused(begin, name)?,
        };
        self.nesting -= 1;
        Ok(method)
    }

    fn fused(&mut self, begin: usize, name: &str) -> Result<Method, MethodError> {
        let mut fusion = match name {
            "mean" => Fusion::Mean,
            "max-abs" => Fusion::MaxAbs,
            "zscore" => Fusion::ZScore,
            "rrf" => Fusion::ReciprocalRank { k: Fusion::DEFAULT_K },
            _ => {
                let known = format!(
                    "{}, bow, api, chat or vectors before (; for a path write \"{}\"",
                    COMBINATIONS.join(", "),
                    &self.text[begin..]
                );
                return Err(self.error_at(begin, known, format!("{name:?}")));
            }
        };
        let mut parts = Vec::new();
        self.arguments(|parser, option| {
            match (option, &mut fusion) {
                (None, _) => parts.push((parser.weight()?, parser.method()?)),
                (Some("k"), Fusion::ReciprocalRank { k }) => {
                    *k = parser.number("a number of 0 or more", |k: &f64| k.is_finite() && *k >= 0.0)?;
                }
                (Some(_), Fusion::ReciprocalRank { .. }) => return Err(parser.error("k = … or a method")),
                (Some(option), _) => {
                    return Err(parser.error(format!(
                        "a method (for a path that begins with {option}= write it in \"\")"
                    )));
                }
            }
            Ok(())
        })?;
        if parts.is_empty() {
            return Err(self.error_at(begin, format!("a method in {name}(…)"), "none".to_owned()));
        }
        Ok(Method::Fused { fusion, parts })
    }

    /// Parses `(`, comma-separated arguments, and `)`. `argument` parses one of them; the name of an option and its
    /// `=` are already consumed, and passed to it.
    fn arguments(
        &mut self,
        mut argument: impl FnMut(&mut Self, Option<&str>) -> Result<(), MethodError>,
    ) -> Result<(), MethodError> {
        self.reads('(');
        loop {
            let option = self.option();
            argument(self, option)?;
            if self.reads(')') {
                return Ok(());
            }
            if !self.reads(',') {
                return Err(self.error("a , or )"));
            }
        }
    }

    /// The name of an option, if it and a `=` come next.
    fn option(&mut self) -> Option<&'a str> {
        self.skip_space();
        let rest = self.rest();
        let name = &rest[..rest.find(|c: char| !c.is_ascii_lowercase())?];
        let begin = self.at;
        self.at += name.len();
        if !name.is_empty() && self.reads('=') {
            return Some(name);
        }
        self.at = begin;
        None
    }

    /// A weight, if a number and a `*` come next; otherwise 1.
    fn weight(&mut self) -> Result<f64, MethodError> {
        self.skip_space();
        let rest = self.rest();
        let number =
            &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-. ".contains(c))).unwrap_or(0)];
        let begin = self.at;
        self.at += number.len();
        if number.is_empty() || !self.reads('*') {
            self.at = begin;
            return Ok(1.0);
        }
        let usable = |weight: &f64| weight.is_finite() && *weight > 0.0;
        number.trim_end().parse().ok().filter(usable).ok_or_else(|| {
            self.error_at(begin, "a weight greater than 0 before *", format!("{:?}", number.trim_end()))
        })
    }

    /// Text that may be empty if it is quoted.
    fn text(&mut self) -> Result<String, MethodError> {
        self.skip_space();
        if self.rest().starts_with('"') { self.quoted() } else { self.words("text") }
    }

    fn number<T: FromStr>(&mut self, what: &str, usable: impl Fn(&T) -> bool) -> Result<T, MethodError> {
        self.skip_space();
        let begin = self.at;
        let text = self.words(what)?;
        let number = text.parse().ok().filter(usable);
        number.ok_or_else(|| self.error_at(begin, what, format!("{text:?}")))
    }

    fn choice<T: Copy>(&mut self, chosen: &mut T, choices: &[(&str, T)]) -> Result<(), MethodError> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.skip_space();
        let begin = self.at;
        let text = self.words(&names.join(" or "))?;
        let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) else {
            return Err(self.error_at(begin, names.join(" or "), format!("{text:?}")));
        };
        *chosen = *choice;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[track_caller]
    fn check(text: &str, expected: &Method) {
        assert_eq!(text.parse::<Method>().as_ref(), Ok(expected));
    }

    #[test]
    fn names_paths_and_combinations_are_read() {
        for (name, method) in NAMES {
            check(name, &method);
            check(&format!("  {name} "), &method);
            check(&format!("\"{name}\""), &Method::Model(name.into()));
        }
        check("models/mine v=2", &Method::Model("models/mine v=2".into()));
        check("bow(vocabulary=positives)", &Method::BagOfWords(Vocabulary::Positives));
        check("run:\"my runs/a, b\"", &Method::Run("my runs/a, b".into()));
        check(
            "vectors:directory",
            &Method::Vectors { directory: "directory".into(), similarity: Similarity::Cosine },
        );
        check(
            "vectors(f, similarity=dot)",
            &Method::Vectors { directory: "f".into(), similarity: Similarity::Dot },
        );
        let mut api = ApiModel { model: "maker/name:tag".into(), ..ApiModel::default() };
        check("api:maker/name:tag", &Method::Api(api.clone()));
        (api.query_prefix, api.dimensions) = ("query: ".into(), Some(256));
        check("api(maker/name:tag, query = \"query: \", dimensions=256)", &Method::Api(api));
        let mut chat = ChatModel { model: "maker/name".into(), ..ChatModel::default() };
        check("chat:maker/name", &Method::Chat(chat.clone()));
        (chat.judge, chat.language) = ("query4code".into(), "go".into());
        check("chat(maker/name, judge = query4code, language = go)", &Method::Chat(chat.clone()));
        (chat.prompts, chat.temperature) = (Some("my/prompts".into()), Some(0.5));
        let text =
            "chat(maker/name, judge = query4code, language = go, prompts = my/prompts, temperature = 0.5)";
        check(text, &Method::Chat(chat));
        let fused = Method::Fused {
            fusion: Fusion::ReciprocalRank { k: 10.0 },
            parts: vec![(1.0, Method::Bm25), (0.5, Method::Model("a*b".into()))],
        };
        check("rrf(bm25,0.5*\"a*b\",k=10)", &fused);
        let rerank = Method::Rerank { first: Box::new(fused), second: Box::new(Method::Overlap), depth: 5 };
        check("rerank( rrf( bm25, .5 * \"a*b\", k = 10 ), overlap, depth = 5 )", &rerank);
        assert!(!rerank.uses_builtin_model() && rerank.n_embeddings() == 1);
        assert_eq!(rerank.leaves().len(), 3);
    }

    #[test]
    fn paths_in_any_depth_are_taken_from_a_folder() {
        let method: Method = "chat(m, prompts = p)".parse().unwrap();
        assert_eq!(method.in_directory(Path::new("/data")).to_string(), "chat(m, prompts = /data/p)");
        let method: Method = "rerank(mean(a, run:b), vectors:/c, depth = 3)".parse().unwrap();
        let moved = method.in_directory(Path::new("/data"));
        assert_eq!(moved.to_string(), "rerank(mean(/data/a, run:/data/b), vectors:/c, depth = 3)");
    }

    #[track_caller]
    fn check_refused(text: &str, at: usize, expected: &str) {
        let error = text.parse::<Method>().unwrap_err();
        let shown = error.to_string();
        assert!(error.at == at && shown.contains(expected), "{} {shown}", error.at);
        assert_eq!(shown.lines().last().unwrap().chars().count(), at + 3, "{shown}");
    }

    #[test]
    fn errors_point_at_the_place() {
        check_refused("", 0, "a method at character 1, found the end");
        check_refused("rrf(bm25, ", 10, "a method");
        check_refused("rrf(bm25, static", 16, "a , or )");
        check_refused("mean(bm25) x", 11, "the end of the method");
        check_refused("mean", 4, "./mean");
        check_refused("models/(1)", 0, "for a path write \"models/(1)\"");
        check_refused("zscore(-1 * bm25)", 7, "greater than 0");
        check_refused("zscore(x2 * bm25)", 7, "greater than 0");
        check_refused("rrf(bm25, k = x)", 14, "of 0 or more");
        check_refused("chat(judge = x)", 0, "a model's name in chat");
        check_refused("chat(m, prompt = x)", 17, "judge = …");
        check_refused("chat(m, temperature = 3)", 22, "a temperature from 0 to 2");
        check_refused("rrf(k = 3)", 0, "a method in rrf");
        check_refused("mean(bm25, k = 3)", 15, "in \"\"");
        check_refused("rerank(bm25, depth = 3)", 0, "two methods");
        check_refused("rerank(bm25, bow, static)", 18, "two methods");
        check_refused("rerank(bm25, bow, depth = 0)", 26, "of 1 or more");
        check_refused("bow(vocabulary = all)", 17, "corpus or positives");
        check_refused("bow(static)", 4, "vocabulary");
        check_refused("api(dimensions = 3)", 0, "a model's name");
        check_refused("vectors(similarity = dot)", 0, "a directory");
        check_refused("run:", 4, "a run's file");
        check_refused("ä(\"", 0, "before (");
        check_refused("run:\"ä", 4, "a closing \"");
        check_refused(&"mean(".repeat(100_000), 5 * MAX_NESTING + 4, "within one another");
    }
}
