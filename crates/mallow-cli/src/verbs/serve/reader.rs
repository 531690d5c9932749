// SPDX-License-Identifier: MIT
//! The thread that reads processes. It may not come back from one, see `mallow_process::position`: whoever asks is
//! answered all the same.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mallow_os::threads;
use mallow_process::position::{LeftAlone, Lost, MOST_LOST, Position};

use crate::error::Result;

/// More than a reading takes at most, less than Prometheus waits.
const LOST_AFTER: Duration = Duration::from_secs(9);
/// Where nobody waits but this command.
const PATIENT: Duration = Duration::from_secs(40);

/// Reads all processes, a time at each call. It stays on the thread on which it was made.
pub type Read<T> = Box<dyn FnMut() -> Arc<T>>;

pub struct Reader<F, T> {
    /// Makes one that tells where it is, and leaves some processes alone.
    make: F,
    patience: Duration,
    worker: Option<Worker<T>>,
    lost: Lost,
    left_alone: LeftAlone,
    /// Of threads that have ended where they were. They are kept: such a process is left alone for good.
    ended: Vec<Arc<Position>>,
    last: Option<Arc<T>>,
}

/// What came of waiting for an answer.
#[derive(PartialEq, Eq)]
enum Heard {
    Answer,
    /// It is slow, but it goes on.
    Nothing,
    /// It does not come back.
    Lost,
}

/// Ends when nobody asks it any more.
struct Worker<T> {
    position: Arc<Position>,
    asks: mpsc::Sender<()>,
    answers: mpsc::Receiver<Arc<T>>,
}

impl<F, T: Send + Sync + 'static> Reader<F, T>
where
    F: Fn(Arc<Position>, LeftAlone) -> Read<T> + Clone + Send + 'static,
{
    pub fn new(make: F) -> Result<Reader<F, T>> {
        let mut reader = Reader {
            make,
            patience: LOST_AFTER,
            worker: None,
            lost: Lost::default(),
            left_alone: LeftAlone::default(),
            ended: Vec::new(),
            last: None,
        };
        reader.worker = Some(reader.start()?);
        Ok(reader)
    }

    fn start(&self) -> Result<Worker<T>> {
        let position = Arc::new(Position::default());
        let (make, at, left_alone) = (self.make.clone(), position.clone(), self.left_alone.clone());
        let (asks, asked) = mpsc::channel();
        let (tells, answers) = mpsc::channel();
        let work = move || {
            let mut read = make(at, left_alone);
            // The first look takes the longest, so it does not wait for a request.
            read();
            for () in asked {
                // Who asked may have gone.
                let _ = tells.send(read());
            }
        };
        threads::spawn("collect", work)?;
        Ok(Worker { position, asks, answers })
    }

    /// For whoever waits until all is read.
    pub fn patient(self) -> Reader<F, T> {
        Reader { patience: PATIENT, ..self }
    }

    /// All processes now; as they were last, where that takes too long; `None` if there is nothing to tell.
    pub fn snapshot(&mut self) -> Option<Arc<T>> {
        self.ask()?;
        self.hear();
        self.last.clone()
    }

    /// All processes now, however long that takes, but for those that no thread comes back from; `None` if these are
    /// too many.
    pub fn whole(&mut self) -> Option<Arc<T>> {
        for _ in 0..=MOST_LOST {
            self.ask()?;
            let mut heard = self.hear();
            while heard == Heard::Nothing {
                heard = self.hear();
            }
            if heard == Heard::Answer {
                return self.last.clone();
            }
        }
        None
    }

    /// `None` if there is nobody to ask.
    fn ask(&mut self) -> Option<()> {
        if self.worker.is_none() && self.lost.has_room() {
            self.worker = self.start().ok();
        }
        let worker = self.worker.as_ref()?;
        // Of an earlier call that did not wait for it.
        self.last = worker.answers.try_iter().last().or(self.last.take());
        let _ = worker.asks.send(());
        Some(())
    }

    fn hear(&mut self) -> Heard {
        let Some(worker) = &self.worker else { return Heard::Lost };
        let begin = Instant::now();
        let process = match worker.answers.recv_timeout(self.patience) {
            Ok(snapshot) => {
                self.last = Some(snapshot);
                return Heard::Answer;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // Nobody knows whether the worker was stopped too for what is beyond that (Ctrl-Z, a frozen container).
                let unseen = begin.elapsed().saturating_sub(self.patience);
                let process = worker.position.stuck(self.patience / 2 + unseen);
                if process.is_none() {
                    // Its answer is for the next call.
                    return Heard::Nothing;
                }
                self.lost.add(&worker.position);
                process
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                self.ended.push(worker.position.clone());
                worker.position.stuck(Duration::ZERO)
            }
        };
        if let Some(process) = process {
            self.left_alone.add(process, &worker.position);
        }
        self.worker = None;
        Heard::Lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_process::position::Whom;
    use mallow_process::stat::Start;

    const ANSWERS: Whom = (7, Start { time: 1, places: [0; 3] });
    const STUCK: Whom = (8, Start { time: 1, places: [0; 3] });

    /// Reads two processes, of which one never answers, unless it is left alone.
    fn make(position: Arc<Position>, left_alone: LeftAlone) -> Read<u32> {
        let mut looks = 0;
        Box::new(move || {
            looks += 1;
            for process in [ANSWERS, STUCK] {
                position.set(Some(process));
                while process == STUCK && looks > 2 && !left_alone.has(&process) {
                    std::thread::sleep(Duration::from_secs(60));
                }
            }
            position.set(None);
            Arc::new(looks)
        })
    }

    #[test]
    fn who_asks_does_not_wait_for_a_process_that_does_not_answer() {
        let mut reader = Reader::new(make).expect("a thread");
        reader.patience = Duration::from_secs(10);
        let looks = |snapshot: Option<Arc<u32>>| snapshot.map(|looks| *looks);
        assert_eq!(looks(reader.snapshot()), Some(2));
        reader.patience = Duration::from_millis(500);
        assert_eq!(looks(reader.snapshot()), Some(2), "as it was last");
        // On a busy machine the thread may have come to it late: then it is not left alone yet.
        let begin = Instant::now();
        while !reader.left_alone.has(&STUCK) && begin.elapsed() < Duration::from_secs(60) {
            assert_eq!(looks(reader.snapshot()), Some(2), "as it was last");
        }
        assert!(reader.left_alone.has(&STUCK) && !reader.left_alone.has(&ANSWERS));
        reader.patience = Duration::from_secs(10);
        assert_eq!(looks(reader.snapshot()), Some(2), "by another thread");
        assert_eq!(looks(reader.snapshot()), Some(3));
        reader.worker = None;
        let stuck = Arc::new(Position::default());
        while reader.lost.has_room() {
            reader.lost.add(&stuck);
        }
        assert_eq!(looks(reader.snapshot()), None);
        assert_eq!(looks(reader.whole()), None);
    }

    #[test]
    fn who_waits_for_all_gets_all_but_what_does_not_answer() {
        let mut reader = Reader::new(make).expect("a thread");
        reader.patience = Duration::from_secs(10);
        assert_eq!(reader.whole().as_deref(), Some(&2));
        reader.patience = Duration::from_millis(500);
        assert_eq!(reader.whole().as_deref(), Some(&2), "by another thread");
        assert!(reader.left_alone.has(&STUCK) && !reader.left_alone.has(&ANSWERS));
    }
}
