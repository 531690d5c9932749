// SPDX-License-Identifier: MIT
//! Rounds: in each of them everything that is compared runs once, in an order drawn anew. Runs of
//! one round see the machine in the same mood, so that they can be compared in pairs.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// One run's place in the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub round: u32,
    /// Within the round, from 0.
    pub place: u32,
    /// Which of the session's cells it is.
    pub cell: usize,
}

/// What is carried out in rounds.
pub trait Session {
    type Error;

    /// Whether there is to be this round; the first is 0.
    fn wants(&self, round: u32) -> bool;

    /// Before a round begins.
    fn begin(&mut self, _round: u32) {}

    fn take(&mut self, turn: Turn) -> Result<(), Self::Error>;
}

/// The seed that the user gave, or a new one.
pub fn seed(given: Option<u64>) -> u64 {
    given.unwrap_or_else(|| rand::rng().random())
}

/// Carries out rounds of so many cells as long as the session wants them, and says how many there were.
pub fn carry_out<S: Session>(session: &mut S, cells: usize, seed: u64) -> Result<u32, S::Error> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut round = 0;
    while session.wants(round) {
        session.begin(round);
        let mut order: Vec<usize> = (0..cells).collect();
        order.shuffle(&mut random);
        for (place, cell) in order.into_iter().enumerate() {
            session.take(Turn { round, place: place as u32, cell })?;
        }
        round += 1;
    }
    Ok(round)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Three(Vec<Turn>);

    impl Session for Three {
        type Error = &'static str;

        fn wants(&self, round: u32) -> bool {
            round < 20
        }

        fn take(&mut self, turn: Turn) -> Result<(), Self::Error> {
            self.0.push(turn);
            if self.0.len() > 1000 { Err("too long") } else { Ok(()) }
        }
    }

    fn orders(seed: u64) -> Vec<Vec<usize>> {
        let mut session = Three(Vec::new());
        assert_eq!(carry_out(&mut session, 3, seed), Ok(20));
        session.0.chunks(3).map(|turns| turns.iter().map(|turn| turn.cell).collect()).collect()
    }

    #[test]
    fn every_round_has_every_cell_once_in_an_order_of_its_own() {
        let found = orders(7);
        for order in &found {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        assert!(found.iter().any(|order| *order != found[0]));
        assert_eq!(found, orders(7), "a seed gives the same orders again");
        assert_ne!(found, orders(8));
    }
}
