//! File systems of others that ours are compared with, behind the kernel, by the same options:
//! bindfs and mergerfs.

use crate::mount::Mount;

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Original {
    kind: Kind,
    /// Behind `-o`, as ours has them.
    options: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Bindfs,
    Mergerfs,
}

/// Directories of the world that are branches, and their size: policies go by space.
const BRANCHES: [(&str, &str); 3] = [("tree", "20m"), ("second", "40m"), ("third", "30m")];

/// What branches have before the program begins, and where: what ends in a slash is a directory.
const FILLED: [(&str, &str); 8] = [
    ("second", "d/"),
    ("second", "d/f"),
    ("second", "h"),
    ("third", "d/"),
    ("third", "d/e/"),
    ("third", "d/e/f"),
    ("third", "e/"),
    ("third", "g"),
];

impl Original {
    /// What `text` asks for, `bindfs:OPTIONS` or `mergerfs:OPTIONS` (ours on a kernel mount),
    /// `bindfs-run:OPTIONS` or `mergerfs-run:OPTIONS` (ours in a run), `bindfs-itself:OPTIONS` or
    /// `mergerfs-itself:OPTIONS` (compared with a directory).
    pub fn mount(text: &str) -> Result<Option<Mount>, String> {
        let Some((name, options)) = text.split_once(':') else {
            return Ok(None);
        };
        let (name, way) = name.split_once('-').unwrap_or((name, ""));
        let kind = match name {
            "bindfs" => Kind::Bindfs,
            "mergerfs" => Kind::Mergerfs,
            _ => return Ok(None),
        };
        if options.contains('{') {
            return Err(format!("{name} has its directories: {options}"));
        }
        let original = Self {
            kind,
            options: options.to_owned(),
        };
        let ours = match way {
            "" => original.ours(false),
            "run" => original.ours(true),
            "itself" => return Ok(Some(Mount::Original(original))),
            _ => return Ok(None),
        };
        Ok(Some(Mount::Beside(original, Box::new(ours))))
    }

    fn ours(&self, in_run: bool) -> Mount {
        let (driver, fixed) = match self.kind {
            Kind::Bindfs => ("bind", ""),
            Kind::Mergerfs => ("union", "minfreespace=0"),
        };
        let given = [fixed, &self.options];
        let given: Vec<_> = given.into_iter().filter(|text| !text.is_empty()).collect();
        let options = given.join(",");
        let source = self.source();
        if !in_run {
            return Mount::Kernel {
                driver,
                source,
                options: options.into(),
                in_tree: true,
            };
        }
        let mut specification = format!("type={driver},source={source},target={{mnt}}");
        if !options.is_empty() {
            specification = format!("{specification},{options}");
        }
        Mount::Culvert {
            specification,
            private: false,
            in_tree: true,
        }
    }

    /// Its command.
    pub const fn command(&self) -> &'static str {
        match self.kind {
            Kind::Bindfs => "bindfs",
            Kind::Mergerfs => "mergerfs",
        }
    }

    /// Its source.
    pub const fn source(&self) -> &'static str {
        match self.kind {
            Kind::Bindfs => "{tree}",
            Kind::Mergerfs => "{tree}:{second}:{third}",
        }
    }

    /// Behind its `-o`: the kernel is to believe nothing for a time.
    pub fn its_options(&self) -> String {
        let fixed = match self.kind {
            Kind::Bindfs => "attr_timeout=0,entry_timeout=0,negative_timeout=0",
            Kind::Mergerfs => "minfreespace=0,use_ino,cache.attr=0,cache.entry=0",
        };
        match &self.options[..] {
            "" => format!("allow_other,{fixed}"),
            options => format!("allow_other,{fixed},{options}"),
        }
    }

    /// Directories that it lies over.
    pub const fn directories(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Bindfs => &["tree"],
            Kind::Mergerfs => &["tree", "second", "third"],
        }
    }

    /// File systems that are mounted first, with their sizes.
    pub const fn branches(&self) -> &'static [(&'static str, &'static str)] {
        match self.kind {
            Kind::Bindfs => &[],
            Kind::Mergerfs => &BRANCHES,
        }
    }

    /// What lies there from the beginning.
    pub const fn filled(&self) -> &'static [(&'static str, &'static str)] {
        match self.kind {
            Kind::Bindfs => &[],
            Kind::Mergerfs => &FILLED,
        }
    }
}
