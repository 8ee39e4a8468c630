//! Random programs: few names, few descriptors, so that steps meet each other.

mod mappings;
mod steps;

use crate::program::{Program, Step};
use crate::random::Random;
use steps::{ACTORS, NAMES, OPERATIONS, PRELUDE, SCENES};

struct Generator {
    random: Random,
    alive: Vec<u8>,
}

impl Generator {
    fn path(&mut self) -> String {
        let name = *self.random.one(&NAMES.each_ref()[..]);
        let other = *self.random.one(&NAMES.each_ref()[..]);
        match self.random.below(60) {
            0..=30 => name.to_owned(),
            31..=37 => format!("{{m}}/{name}"),
            38 => format!("./{name}"),
            39 => format!("{{m}}//{name}"),
            40..=41 => format!("{name}/"),
            42 => format!("{name}/."),
            43 => format!("{name}/.."),
            44 => format!("d/../{name}"),
            45 => format!("{name}/../{other}"),
            46 => format!("k/../{name}"),
            47 => format!("{{o}}/in/{name}"),
            48 => format!("out/in/{name}"),
            49 => format!("{{m}}/../mnt/{name}"),
            50 => format!("{{m}}/../out/{name}"),
            51 => format!("out/{name}"),
            52 => format!(
                "{{o}}/{}",
                self.random.one(&["file", "ind", "ind/../f", "x", "in"])
            ),
            53 => format!(
                "/proc/self/fd/{{fd:{}}}{}",
                self.slot(),
                self.random.one(&["", "/f", "/"])
            ),
            54 => format!("/proc/self/cwd/{name}"),
            55 => self
                .random
                .one(&["..", ".", "{m}", "{m}/", "{m}/..", "d/..", "{m}//"])
                .to_owned(),
            56 => self
                .random
                .one(&["{x:255}", "{x:256}", "d/{y:255}", "d/{y:256}", "{x:255}/f"])
                .to_owned(),
            57 => self
                .random
                .one(&[
                    "{./:2047}f",
                    "{./:2048}f",
                    "{d/../:600}f",
                    "{./:2500}f",
                    "{d/../:818}f",
                    "{x/:60}f",
                ])
                .to_owned(),
            _ => self
                .random
                .one(&["{null}", "{bad}", "{}", "missing/x", "f/x"])
                .to_owned(),
        }
    }

    fn slot(&mut self) -> String {
        self.random
            .one(&["a", "a", "b", "b", "c", "d", "e", "h"])
            .to_owned()
    }

    fn flags(&mut self) -> String {
        let mut flags = self
            .random
            .one(&["O_RDONLY", "O_WRONLY", "O_RDWR", "O_RDWR", "O_RDWR"])
            .to_owned();
        let chances = [
            (40, "O_CREAT"),
            (8, "O_EXCL"),
            (12, "O_TRUNC"),
            (12, "O_APPEND"),
            (8, "O_DIRECTORY"),
            (8, "O_NOFOLLOW"),
            (6, "O_PATH"),
            (8, "O_CLOEXEC"),
            (2, "O_SYNC"),
            (1, "O_DSYNC"),
            (1, "O_NOATIME"),
            (1, "O_DIRECT"),
            (1, "O_TMPFILE"),
            (1, "O_ASYNC"),
            (1, "0x40000000"),
        ];
        for (chance, flag) in chances {
            if self.random.percent(chance) {
                flags = format!("{flags}|{flag}");
            }
        }
        match self.random.below(40) {
            0 => "O_RDWR|O_TMPFILE".to_owned(),
            1 => "O_RDONLY|O_DIRECTORY".to_owned(),
            2 => "O_ACCMODE".to_owned(),
            // A FIFO without a reader or writer blocks for ever: steps of this kind do not.
            _ => format!("{flags}|O_NONBLOCK"),
        }
    }

    fn actor(&mut self) -> u8 {
        self.alive[self.random.below(self.alive.len())]
    }

    /// Everything random in `text` replaced.
    fn filled(&mut self, text: &str) -> String {
        let mut done = String::new();
        let mut rest = text;
        while let Some(next) = rest.find(['%', '[']) {
            done += &rest[..next];
            let inside = &rest[next + 1..];
            if rest[next..].starts_with('[') {
                let end = inside.find(']').expect("brackets close");
                let choices: Vec<&str> = inside[..end].split(';').collect();
                let choice = self.random.one(&choices).to_owned();
                done += &self.filled(&choice);
                rest = &inside[end + 1..];
            } else {
                done += &self.part(inside.chars().next().unwrap_or(' '));
                rest = &inside[1..];
            }
        }
        done + rest
    }

    fn part(&mut self, kind: char) -> String {
        match kind {
            's' => self.slot(),
            'f' => match self.random.below(30) {
                0 => self
                    .random
                    .one(&["#-1", "#77", "#1023", "cwd", "#1"])
                    .to_owned(),
                _ => self.slot(),
            },
            'd' => match self.random.below(6) {
                0..=3 => "cwd".to_owned(),
                4 => "c".to_owned(),
                _ => self.slot(),
            },
            'p' => self.path(),
            't' => match self.random.below(6) {
                0 => self
                    .random
                    .one(&[
                        "..",
                        ".",
                        "{m}",
                        "{o}/file",
                        "../out",
                        "{./:2047}f",
                        "missing",
                        "{}",
                        "h",
                        "l",
                        "../../d",
                    ])
                    .to_owned(),
                _ => self.path(),
            },
            'o' => self.flags(),
            'm' => self
                .random
                .one(&[
                    "0644", "0644", "0600", "0755", "0755", "0700", "0", "0444", "0222", "0111",
                    "04755", "02755", "01777", "0100644",
                ])
                .to_owned(),
            'n' => self
                .random
                .one(&[
                    "0", "1", "2", "10", "100", "511", "4095", "4096", "4097", "10000", "65536",
                    "70001", "100000",
                ])
                .to_owned(),
            'k' => self
                .random
                .one(&[
                    "0",
                    "0",
                    "1",
                    "10",
                    "100",
                    "4095",
                    "4096",
                    "5000",
                    "10000",
                    "65537",
                    "-1",
                    "-10",
                    "8589934592",
                    "9223372036854775807",
                ])
                .to_owned(),
            'z' => self
                .random
                .one(&[
                    "0",
                    "0",
                    "1",
                    "100",
                    "4096",
                    "4097",
                    "10000",
                    "100000",
                    "-1",
                    "8589934592",
                ])
                .to_owned(),
            'b' => self
                .random
                .one(&[
                    "",
                    "",
                    "",
                    "",
                    "",
                    "",
                    "",
                    "",
                    "",
                    "",
                    "bad",
                    "edge:0",
                    "edge:50",
                    "edge:4096",
                ])
                .to_owned(),
            'A' => self.actor().to_string(),
            'F' => self
                .random
                .one(&["a", "a", "a", "a", "d", "d", "b", "e", "h"])
                .to_owned(),
            'M' => self
                .random
                .one(&["m0", "m0", "m0", "m1", "m1", "m2", "m3"])
                .to_owned(),
            'O' => self
                .random
                .one(&[
                    "0", "0", "0", "0", "1", "100", "4000", "4096", "4096", "5000", "8192",
                    "12288", "1048576", "2999000",
                ])
                .to_owned(),
            'L' => self
                .random
                .one(&["1", "100", "100", "4096", "5000", "8192", "12288"])
                .to_owned(),
            'N' => self.new_actor(),
            other => other.to_string(),
        }
    }

    fn new_actor(&mut self) -> String {
        let free = (0..8)
            .find(|actor| !self.alive.contains(actor))
            .unwrap_or(7);
        if !self.alive.contains(&free) {
            self.alive.push(free);
        }
        free.to_string()
    }

    fn step(&mut self, table: &[(usize, &str)]) -> Step {
        let whole = table.iter().map(|(weight, _)| weight).sum();
        let mut at = self.random.below(whole);
        let found = table.iter().find(|(weight, _)| {
            let here = at < *weight;
            at = at.saturating_sub(*weight);
            here
        });
        let actor = self.actor();
        let text = self.filled(found.map_or("getcwd 4096", |(_, text)| text));
        if text == "exit" {
            if self.alive.len() < 2 {
                return Step::new(actor, "getcwd 4096");
            }
            self.alive.retain(|other| *other != actor);
        }
        Step::new(actor, &text)
    }

    fn scene(&mut self, scenes: &[&[&str]], steps: &mut Vec<Step>) {
        let scene = scenes[self.random.below(scenes.len())];
        let first = self.actor();
        let second = match self.alive.iter().find(|other| **other != first) {
            Some(other) => *other,
            None => return,
        };
        for text in scene {
            let (who, text) = text.split_at(1);
            let words: Vec<String> = text
                .split_whitespace()
                .map(|word| match word {
                    "A" => first.to_string(),
                    "B" => second.to_string(),
                    other => other.to_owned(),
                })
                .collect();
            let text = self.filled(&words.join(" "));
            steps.push(Step::new(if who == "A" { first } else { second }, &text));
        }
    }
}

/// The program of `seed` with about `steps` steps behind its prelude. Every third one is for an
/// ordinary user, every tenth compares times.
pub fn generate(seed: u64, steps: usize) -> Program {
    let mut generator = Generator {
        random: Random::new(seed),
        alive: vec![0, 1],
    };
    let ticks = generator.random.percent(10);
    let nobody = generator.random.percent(33);
    let mut all: Vec<Step> = PRELUDE.iter().map(|text| Step::new(0, text)).collect();
    let end = all.len() + steps;
    while all.len() < end {
        match generator.random.below(100) {
            0..=3 => {
                let step = generator.step(ACTORS);
                all.push(step);
            }
            4..=5 => generator.scene(SCENES, &mut all),
            6..=13 if ticks => {
                let text = generator.filled("times %d %p AT_EMPTY_PATH");
                let actor = generator.actor();
                all.push(Step::new(actor, &text));
            }
            _ => {
                let step = generator.step(OPERATIONS);
                all.push(step);
            }
        }
    }
    Program {
        comments: vec![format!(" seed {seed}, {steps} steps")],
        ticks,
        nobody,
        steps: all,
    }
}

/// As [`generate`], with steps on mapped files most of the time. Times are never compared: when a
/// store changes them is the file system's own affair.
pub fn generate_mapped(seed: u64, steps: usize) -> Program {
    let mut generator = Generator {
        random: Random::new(seed),
        alive: vec![0, 1, 2, 3],
    };
    let nobody = generator.random.percent(33);
    let mut all: Vec<Step> = PRELUDE
        .iter()
        .chain(&mappings::PRELUDE)
        .map(|text| Step::new(0, text))
        .collect();
    let end = all.len() + steps;
    while all.len() < end {
        match generator.random.below(100) {
            0..=2 => {
                let step = generator.step(ACTORS);
                all.push(step);
            }
            3..=6 => generator.scene(mappings::SCENES, &mut all),
            7..=26 => {
                let step = generator.step(OPERATIONS);
                all.push(step);
            }
            _ => {
                let step = generator.step(mappings::OPERATIONS);
                all.push(step);
            }
        }
    }
    Program {
        comments: vec![format!(" mapped, seed {seed}, {steps} steps")],
        ticks: false,
        nobody,
        steps: all,
    }
}
