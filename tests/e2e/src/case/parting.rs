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

/// Names the first line of `script` at which two traced runs differ, the answer that was expected
/// there and the answer that came.
pub(super) fn parting(native: &Finished, ours: &Finished, script: &str) -> String {
    let (native, ours) = (native.text(), ours.text());
    // The notices of culvert itself are no part of the answer.
    let lines = |text| str::lines(text).filter(|line| !line.starts_with("culvert: "));
    let (native, ours): (Vec<&str>, Vec<&str>) = (lines(&native).collect(), lines(&ours).collect());
    let longer = native.len().max(ours.len());
    let Some(at) = (0..longer).find(|&at| native.get(at) != ours.get(at)) else {
        return "run again with each line named, the two sides agree".to_owned();
    };
    let Some((mark, number)) = (0..=at.min(native.len().saturating_sub(1)))
        .rev()
        .find_map(|line| Some((line, marked(native.get(line)?)?)))
    else {
        return "run again with each line named, the two sides part before the first".to_owned();
    };
    let answer = |side: &[&str]| {
        let lines = side.iter().skip(mark + 1);
        let lines: Vec<&str> = lines
            .take_while(|line| marked(line).is_none())
            .copied()
            .collect();
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
        answer(&native),
        answer(&ours)
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
}
