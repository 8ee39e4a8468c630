//! The line of a script at which two sides part.

use crate::process::Finished;

/// What the shell prints before each command of a traced script; the number of the line follows.
const MARK: &str = "+line ";

/// Longest part of an answer that is shown, in lines.
const MOST: usize = 12;

/// The words that run `script` with each command's line named before its output.
pub(super) fn traced(script: &str) -> Vec<String> {
    // Standard error joins standard output, so that marks and answers keep their order. The shell
    // of root takes no PS4 from its environment. The first line stays the first.
    let traced = format!("PS4='{MARK}$LINENO: '; set -x; {script}");
    let both = "exec 2>&1; exec bash -c \"$0\"";
    ["bash", "-c", both, &traced].map(str::to_owned).to_vec()
}

/// The number of the line that a mark names. Bash repeats the first character in nested commands.
fn marked(line: &str) -> Option<usize> {
    let rest = line.trim_start_matches('+').strip_prefix(&MARK[1..])?;
    line.starts_with('+')
        .then(|| rest.split_once(": ")?.0.parse().ok())
        .flatten()
}

/// What one line of a script did: its commands as the shell has named them, and their answer.
#[derive(Default, PartialEq)]
struct Step<'a> {
    /// None: before the first line.
    number: Option<usize>,
    /// In the order of their texts: the commands of a pipeline begin in any order.
    commands: Vec<&'a str>,
    answer: Vec<&'a str>,
}

/// The steps of a traced run; the notices of culvert itself are no part of an answer.
fn steps(text: &str) -> Vec<Step<'_>> {
    let mut steps = vec![Step::default()];
    for line in text.lines().filter(|line| !line.starts_with("culvert: ")) {
        let number = marked(line);
        if number.is_some() && steps.last().is_some_and(|step| step.number != number) {
            steps.push(Step {
                number,
                ..Step::default()
            });
        }
        if let Some(step) = steps.last_mut() {
            match number {
                Some(_) => step.commands.push(line),
                None => step.answer.push(line),
            }
        }
    }
    for step in &mut steps {
        step.commands.sort_unstable();
    }
    steps
}

/// Names the first line of `script` at which two traced runs differ, the answer that was expected
/// there and the answer that came; where the commands differ and not what they answer, these.
pub(super) fn parting(native: &Finished, ours: &Finished, script: &str) -> String {
    let (native, ours) = (native.text(), ours.text());
    let (native, ours) = (steps(&native), steps(&ours));
    let longer = native.len().max(ours.len());
    let Some(at) = (0..longer).find(|&at| native.get(at) != ours.get(at)) else {
        return "run again with each line named, the two sides agree".to_owned();
    };
    let none = Step::default();
    let (expected, came) = (
        native.get(at).unwrap_or(&none),
        ours.get(at).unwrap_or(&none),
    );
    let Some(number) = expected.number.or(came.number) else {
        return "run again with each line named, the two sides part before the first".to_owned();
    };
    let same_answer = expected.answer == came.answer;
    let shown = |step: &Step<'_>| {
        let lines = match same_answer {
            true => &step.commands,
            false => &step.answer,
        };
        match lines.len() {
            0 => "nothing".to_owned(),
            count if count > MOST => format!("{}\n... {count} lines", lines[..MOST].join("\n")),
            _ => lines.join("\n"),
        }
    };
    let text = script.lines().nth(number - 1).unwrap_or_default();
    format!(
        "line {number}: {}\n------ expected\n{}\n------ answer\n{}",
        text.trim(),
        shown(expected),
        shown(came)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(script: &str) -> Finished {
        let words = traced(script);
        let mut command = std::process::Command::new(&words[0]);
        command.args(&words[1..]);
        crate::process::run(command, &[])
    }

    #[test]
    fn the_line_and_both_answers_are_named() {
        let (one, other) = (
            "echo same\necho $((1 + 1))\necho end",
            "echo same\necho 3\necho end",
        );
        let said = parting(
            &ran(one),
            &ran(&other.replace("echo 3", "echo $((1 + 2))")),
            one,
        );
        assert_eq!(
            said,
            "line 2: echo $((1 + 1))\n------ expected\n2\n------ answer\n3"
        );
    }

    #[test]
    fn an_error_is_an_answer_and_loops_have_lines() {
        let one = "for i in 1 2; do\n    echo $i\n    cat /dev/null\ndone";
        let other = one.replace("cat /dev/null", "cat /dev/null/x");
        let said = parting(&ran(one), &ran(&other), one);
        assert!(said.starts_with("line 3: cat /dev/null\n"), "{said}");
    }

    /// The commands of a pipeline begin in any order, by which no line parts.
    #[test]
    fn a_pipeline_parts_by_its_answer() {
        let native = "+line 1: sort\n+line 1: cat\n+line 2: echo 1\n1\n";
        let ours = "+line 1: cat\n+line 1: sort\n+line 2: echo 1\n2\n";
        let ran = |text: &str| Finished {
            stdout: text.into(),
            stderr: Vec::new(),
            status: "exit 0".into(),
        };
        let said = parting(&ran(native), &ran(ours), "cat | sort\necho 1");
        assert!(said.starts_with("line 2: echo 1\n"), "{said}");
    }
}
