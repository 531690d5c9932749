// SPDX-License-Identifier: MIT
//! How the help of each verb ends: two examples, and the verb that one needs next.

use clap::Command;

struct Guide {
    verb: &'static str,
    /// Without the name of the command.
    examples: [&'static str; 2],
    /// The next verb, and what for.
    next: (&'static str, &'static str),
}

/// In the order of the verbs.
const GUIDES: [Guide; 23] = [
    Guide {
        verb: "list",
        examples: ["list", "list --json"],
        next: ("run", "starts a command under one of them"),
    },
    Guide {
        verb: "run",
        examples: ["run -- python3 app.py", "run -a jemalloc --opt narenas:4 -- redis-server"],
        next: ("compare", "says whether it is worth it"),
    },
    Guide {
        verb: "compare",
        examples: [
            "compare -- python3 app.py",
            "compare -a glibc,mallow --runs 30 --html result.html -- make -j4",
        ],
        next: ("verify", "says whether the one you chose is in use"),
    },
    Guide {
        verb: "verify",
        examples: ["verify 4711", "verify --expect mallow --json 4711"],
        next: ("explain", "says where the memory of the process is"),
    },
    Guide {
        verb: "explain",
        examples: ["explain 4711", "explain --all --save heap.saved 4711"],
        next: ("watch", "shows the same figures over time"),
    },
    Guide {
        verb: "watch",
        examples: ["watch 4711", "watch --interval 100ms --save before.json -- python3 app.py"],
        next: ("stats", "shows what the allocator itself counts"),
    },
    Guide {
        verb: "top",
        examples: ["top", "top --once --sort live --filter python"],
        next: ("explain", "says where the memory of one of them is"),
    },
    Guide {
        verb: "stats",
        examples: ["stats 4711", "stats --classes --locks jemalloc.json"],
        next: ("advise", "says what to change, if anything"),
    },
    Guide {
        verb: "advise",
        examples: ["advise 4711", "advise -a jemalloc -- ./server --threads 64"],
        next: ("compare", "shows whether the change is worth it"),
    },
    Guide {
        verb: "record",
        examples: [
            "record -o app.trace -- python3 app.py",
            "record --duration 30s -o app.trace -p 4711",
        ],
        next: ("report", "says what the trace holds"),
    },
    Guide {
        verb: "report",
        examples: ["report app.trace", "report --by leaked --html report.html app.trace"],
        next: ("replay", "makes the same calls under other allocators"),
    },
    Guide {
        verb: "replay",
        examples: ["replay app.trace", "replay -a glibc,mallow --mode lockstep app.trace"],
        next: ("compare", "confirms the choice with the program itself"),
    },
    Guide {
        verb: "tune",
        examples: [
            "tune -a jemalloc -- ./server --bench",
            "tune --constraint rss<400M app.trace -- python3 app.py",
        ],
        next: ("run", "starts the program under the settings that it found"),
    },
    Guide {
        verb: "check",
        examples: ["check --update -- python3 app.py", "check --format github -- ./tests"],
        next: ("record", "shows all that the command allocates, in a report"),
    },
    Guide {
        verb: "serve",
        examples: ["serve", "serve --unit redis-server --listen unix:/run/mallow.sock"],
        next: ("explain", "says where the memory of one of them is"),
    },
    Guide {
        verb: "guard",
        examples: ["guard -- ./app --test", "guard --leaks --html faults.html -- python3 app.py"],
        next: ("help", "explains what was found, by its id"),
    },
    Guide {
        verb: "enable",
        examples: ["enable --global -a jemalloc", "enable --unit nginx --dry-run"],
        next: ("status", "shows what is enabled and which processes have it"),
    },
    Guide {
        verb: "disable",
        examples: ["disable --global", "disable --all --dry-run"],
        next: ("status", "shows what is left"),
    },
    Guide {
        verb: "status",
        examples: ["status", "status --json"],
        next: ("verify", "looks at one process closely"),
    },
    Guide {
        verb: "config",
        examples: ["config", "config compare --json"],
        next: ("list", "shows the allocators that there are"),
    },
    Guide {
        verb: "completions",
        examples: ["completions bash", "completions fish -o mallow.fish"],
        next: ("man", "prints the manual"),
    },
    Guide {
        verb: "man",
        examples: ["man compare", "man --all man1"],
        next: ("help", "explains a verb or a finding in short"),
    },
    Guide {
        verb: "help",
        examples: ["help compare", "help MLW2101"],
        next: ("list", "is where to begin"),
    },
];

/// The command with these endings.
pub fn add(command: Command) -> Command {
    GUIDES.iter().fold(command, |command, guide| {
        command.mut_subcommand(guide.verb, |verb| verb.after_help(guide.text()))
    })
}

/// The examples of a verb as they are typed.
pub fn examples(verb: &str) -> impl Iterator<Item = String> {
    let guide = GUIDES.iter().find(|guide| guide.verb == verb);
    let examples = guide.map_or(&[][..], |guide| &guide.examples);
    examples.iter().map(|example| format!("mallow {example}"))
}

/// The verb to go on with, and a sentence about it.
pub fn next(verb: &str) -> Option<(&'static str, String)> {
    let guide = GUIDES.iter().find(|guide| guide.verb == verb)?;
    Some((guide.next.0, guide.next_sentence()))
}

impl Guide {
    fn text(&self) -> String {
        let [first, second] = self.examples;
        let next = self.next_sentence();
        format!("Examples:\n  mallow {first}\n  mallow {second}\n\nNext: {next}")
    }

    fn next_sentence(&self) -> String {
        format!("mallow {} {}.", self.next.0, self.next.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn every_verb_has_two_examples_that_are_understood_and_names_a_verb() {
        let command = cli::definition();
        let verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let guided: Vec<&str> = GUIDES.iter().map(|guide| guide.verb).collect();
        assert_eq!(verbs, guided);
        for guide in &GUIDES {
            for example in guide.examples {
                let words = std::iter::once("mallow").chain(example.split(' '));
                let parsed = command.clone().try_get_matches_from(words);
                let verb = parsed.as_ref().map(|matches| matches.subcommand_name());
                assert_eq!(verb.unwrap(), Some(guide.verb), "{example}");
            }
            assert!(verbs.contains(&guide.next.0) && guide.next.0 != guide.verb);
        }
    }
}
