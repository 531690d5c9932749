// SPDX-License-Identifier: MIT
//! `mallow replay`: a recorded run on every allocator. `replaying` turns the trace
//! into a plan, `rounds` carries it out, `analysis` says what that means and whether it may be believed,
//! `report` shows it.

mod analysis;
mod args;
mod report;
mod rounds;
mod text;

use crate::error::{Error, Result};
use crate::output::Notes;
use crate::replaying::{Player, input};
pub use args::ReplayArgs;
use mallow_launch::contender::{self, Choice};

pub fn main(args: &ReplayArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    let input = input::read(&args.trace, args.process.as_deref(), notes, || Ok(()))?;
    let player = Player::new(args.touch)?;
    let choice = Choice {
        allocators: &args.allocators,
        baseline: args.baseline.as_deref(),
        secure: false,
        debug: false,
        options: &args.options,
    };
    let contenders = contender::choose(choice, &player.target, &|sentence| notes.note(sentence))?;
    let measured = rounds::measure(args, &input, player, contenders, notes)?;
    let report = analysis::analyse(args, &input, &measured);
    args.output.write(&report, || report.page(), |format, screen| report.text(format, screen))?;
    match (input.damage, report.objection) {
        (Some(damage), _) => Err(Error::Damaged(damage)),
        // Nothing speaks against the replay.
        (None, Some(objection)) if report.is_unmeasured => {
            notes.note(&objection);
            Ok(0)
        }
        (None, Some(objection)) => Err(Error::Inconclusive(objection)),
        (None, None) => Ok(0),
    }
}
