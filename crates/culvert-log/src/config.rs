//! LoggedFS's configuration: which actions are logged.
//!
//! ```xml
//! <loggedFS logEnabled="true" printProcessName="true">
//!   <includes><include extension=".*" uid="*" action=".*" retname=".*"/></includes>
//!   <excludes><exclude extension="\.bak$" uid="*" action="getattr" retname="SUCCESS"/></excludes>
//! </loggedFS>
//! ```
//!
//! An action is logged when an `include` matches it and no `exclude` does, or when there is no
//! `include`. All but `uid`, which is a number or `*`, are regular expressions as in Perl, found
//! anywhere in their subject: the path, the action's word, `SUCCESS` or `FAILURE`.

use fancy_regex::Regex;
use std::{fs, path::Path};

/// One `include` or `exclude`.
struct Rule {
    path: Regex,
    uid: Option<u32>,
    action: Regex,
    result: Regex,
}

/// A configuration.
#[derive(Default)]
pub struct Config {
    disabled: bool,
    /// Lines do not name the program.
    pub without_names: bool,
    includes: Vec<Rule>,
    excludes: Vec<Rule>,
}

impl Config {
    /// Reads the file `path`; the reason in words where that fails.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    /// Reads `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document = roxmltree::Document::parse(text).map_err(|error| error.to_string())?;
        let root = document.root_element();
        if root.tag_name().name() != "loggedFS" {
            let name = root.tag_name().name();
            return Err(format!("its root is <{name}>, not <loggedFS>"));
        }
        let mut config = Self::default();
        for attribute in root.attributes() {
            let value = match attribute.value() {
                "true" => true,
                "false" => false,
                other => {
                    return Err(format!(
                        "{}=\"{other}\": want true or false",
                        attribute.name()
                    ));
                }
            };
            match attribute.name() {
                "logEnabled" => config.disabled = !value,
                "printProcessName" => config.without_names = !value,
                other => return Err(format!("<loggedFS> has no attribute {other}")),
            }
        }
        for list in root.children().filter(|node| node.is_element()) {
            let (into, item) = match list.tag_name().name() {
                "includes" => (&mut config.includes, "include"),
                "excludes" => (&mut config.excludes, "exclude"),
                other => return Err(format!("<{other}> is neither <includes> nor <excludes>")),
            };
            for node in list.children().filter(|node| node.is_element()) {
                if node.tag_name().name() != item {
                    let name = node.tag_name().name();
                    return Err(format!("<{name}> where <{item}> is wanted"));
                }
                into.push(rule(&node)?);
            }
        }
        Ok(config)
    }

    /// Whether it is plain that nothing is ever logged.
    pub fn wants_nothing(&self) -> bool {
        self.disabled
    }

    /// Whether `action` on the whole `path`, by user `uid`, which `failed` or not, is logged.
    pub fn wants(&self, path: &str, uid: u32, action: &str, failed: bool) -> bool {
        let result = if failed { "FAILURE" } else { "SUCCESS" };
        let any = |rules: &[Rule]| {
            rules.iter().any(|rule| {
                // A pattern that gives up (backtracking without end) matches nothing.
                let found = |pattern: &Regex, text| pattern.is_match(text).unwrap_or(false);
                rule.uid.is_none_or(|wanted| wanted == uid)
                    && found(&rule.action, action)
                    && found(&rule.result, result)
                    && found(&rule.path, path)
            })
        };
        !self.disabled && (self.includes.is_empty() || any(&self.includes) && !any(&self.excludes))
    }
}

fn rule(node: &roxmltree::Node<'_, '_>) -> Result<Rule, String> {
    let item = node.tag_name().name();
    for attribute in node.attributes() {
        let name = attribute.name();
        if !["extension", "uid", "action", "retname"].contains(&name) {
            return Err(format!("<{item}> has no attribute {name}"));
        }
    }
    let value = |name: &str| {
        let value = node.attribute(name);
        value.ok_or_else(|| format!("<{item}> without {name}"))
    };
    let pattern = |name: &str| {
        let text = value(name)?;
        Regex::new(text).map_err(|error| format!("{name}=\"{text}\": {error}"))
    };
    let uid = match value("uid")? {
        "*" => None,
        number => Some(
            number
                .parse()
                .map_err(|_| format!("uid=\"{number}\": want a number or *"))?,
        ),
    };
    Ok(Rule {
        path: pattern("extension")?,
        uid,
        action: pattern("action")?,
        result: pattern("retname")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(inner: &str) -> Config {
        Config::parse(&format!("<loggedFS logEnabled=\"true\">{inner}</loggedFS>")).unwrap()
    }

    #[test]
    fn includes_and_excludes_choose() {
        assert!(config("").wants("/a", 0, "open", false));
        let only_excludes =
            "<excludes><exclude extension='.*' uid='*' action='.*' retname='.*'/></excludes>";
        assert!(config(only_excludes).wants("/a", 0, "open", false));
        let some = config(
            "<includes><include extension='.*' uid='7' action='open|read' \
            retname='SUCCESS'/></includes>\
             <excludes><exclude extension='\\.x$' uid='*' action='.*' retname='.*'/></excludes>",
        );
        assert!(some.wants("/a", 7, "open", false));
        // Found anywhere.
        assert!(some.wants("/a", 7, "readdir", false));
        assert!(!some.wants("/a", 8, "open", false));
        assert!(!some.wants("/a", 7, "open", true));
        assert!(!some.wants("/a", 7, "write", false));
        assert!(!some.wants("/a.x", 7, "open", false));
        let look_ahead = config(
            "<includes><include extension='^(?!.*/tmp/)' uid='*' action='.*' \
            retname='.*'/></includes>",
        );
        assert!(look_ahead.wants("/a/b", 0, "open", false));
        assert!(!look_ahead.wants("/a/tmp/b", 0, "open", false));
        let off = Config::parse("<loggedFS logEnabled=\"false\"/>").unwrap();
        assert!(!off.wants("/a", 0, "open", false));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, want) in [
            ("<loggedFS", "the document does not have a root node"),
            ("<a/>", "its root is <a>, not <loggedFS>"),
            (
                "<loggedFS logEnabled='1'/>",
                "logEnabled=\"1\": want true or false",
            ),
            ("<loggedFS x='true'/>", "<loggedFS> has no attribute x"),
            (
                "<loggedFS><y/></loggedFS>",
                "<y> is neither <includes> nor <excludes>",
            ),
            (
                "<loggedFS><includes><exclude/></includes></loggedFS>",
                "<exclude> where <include> is wanted",
            ),
            (
                "<loggedFS><includes><include uid='*'/></includes></loggedFS>",
                "<include> without extension",
            ),
            (
                "<loggedFS><includes><include uid='me' extension='' action='' \
                retname=''/></includes></loggedFS>",
                "uid=\"me\": want a number or *",
            ),
            (
                "<loggedFS><includes><include uid='*' extension='(' action='' \
                retname=''/></includes></loggedFS>",
                "extension=\"(\": Parsing error at position 1: Opening parenthesis without \
                closing parenthesis",
            ),
        ] {
            match Config::parse(text) {
                Ok(_) => panic!("{text} is accepted"),
                Err(error) => assert!(error.contains(want), "{text}: {error}"),
            }
        }
    }
}
