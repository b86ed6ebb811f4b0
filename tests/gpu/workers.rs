//! Several ranks of a run, here as threads: what they have in common, and what becomes of all when one fails.

use std::sync::{Arc, Barrier, Mutex};

use wgpu_bert::optimizer::OptimizerKind;
use wgpu_bert::strategy::{Team, Workers};
use wgpu_bert::train::{Control, Event, Running, TrainError, Trained, run_bert_pretrain};

use crate::distribution::run;
use crate::harness::device;
use crate::mirrored::replicas;
use crate::small_run::{Setting, bits, setting};

/// What passes between the threads.
struct Shared {
    turn: Barrier,
    said: Mutex<Vec<Vec<u8>>>,
}

/// A thread.
struct Thread {
    rank: usize,
    shared: Arc<Shared>,
}

fn words(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|word| f32::from_le_bytes(word.try_into().expect("a word"))).collect()
}

fn bytes(words: &[f32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Workers for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        2
    }

    fn gather(&self, mine: &[u8]) -> Vec<Vec<u8>> {
        self.shared.said.lock().expect("no panic")[self.rank] = mine.to_vec();
        self.shared.turn.wait();
        let all = self.shared.said.lock().expect("no panic").clone();
        self.shared.turn.wait();
        all
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) {
        *bytes = self.gather(bytes).remove(0);
    }

    fn all_to_all(&self, send: &[f32], receive: &mut [f32]) {
        let part = send.len() / 2;
        let parts = self
            .gather(&bytes(send))
            .into_iter()
            .flat_map(|all| words(&all)[self.rank * part..][..part].to_vec());
        receive.copy_from_slice(&parts.collect::<Vec<_>>());
    }

    fn all_gather(&self, send: &[f32], receive: &mut [f32]) {
        receive.copy_from_slice(&words(&self.gather(&bytes(send)).concat()));
    }
}

/// Two ranks, each with its own setting; `at_step` is called in each before every step.
pub fn two_ranks(
    settings: [Setting; 2],
    at_step: impl AsyncFn(usize, u64, &mut Running<'_>) + Sync,
) -> [Result<Trained, TrainError>; 2] {
    let shared = Arc::new(Shared { turn: Barrier::new(2), said: Mutex::new(vec![Vec::new(); 2]) });
    let (shared, at_step) = (&shared, &at_step);
    std::thread::scope(|scope| {
        let mut rank = 0;
        let ranks = settings.map(|setting| {
            let thread = Thread { rank, shared: shared.clone() };
            rank += 1;
            scope.spawn(move || {
                let rank = thread.rank;
                let strategy = setting.strategy.clone().in_team(Team::new(thread));
                let run = run_bert_pretrain(
                    Some(&strategy),
                    &setting.options,
                    setting.features.clone(),
                    None,
                    &mut [],
                    async |event, running| {
                        if let Event::Step(step) = event {
                            at_step(rank, step, running).await;
                        }
                        Control::Continue
                    },
                );
                pollster::block_on(run)
            })
        });
        ranks.map(|rank| rank.join().expect("no panic"))
    })
}

#[test]
fn ranks_learn_what_replicas_of_one_process_do() {
    let device = device(None);
    let setting = setting(&device, OptimizerKind::AdamW);
    let one = bits(&run(&replicas(&setting, 2), setting.options.distribution).1.tensors);
    let ranks = two_ranks([setting.clone(), setting], async |rank, step, running| {
        // A snapshot of any rank compares the weights of all.
        if (rank, step) == (1, 9) {
            running.snapshot().await.expect("all are alike");
        }
    });
    for (rank, trained) in ranks.into_iter().enumerate() {
        let trained = trained.expect("trained");
        assert!(bits(&trained.tensors) == one, "rank {rank} has other bits");
        let report = trained.replicas.expect("a report");
        // Half of everything, for its sum and of its sum.
        assert!(report.bytes_between_workers.abs_diff(report.bytes) <= 256, "{report:?}");
    }
}

#[test]
fn a_rank_with_other_weights_ends_the_run() {
    let device = device(None);
    let setting = setting(&device, OptimizerKind::AdamW);
    let ranks = two_ranks([setting.clone(), setting], async |rank, step, running| {
        if (rank, step) == (1, 5) {
            let own = running.trainers().next().expect("a trainer");
            let mut weights = own.read_arena(&own.step().weights).await.expect("weights");
            weights[3].data[0] += 1e-6;
            own.write_weights(&weights);
        }
    });
    for ended in ranks {
        let error = ended.expect_err("a drift");
        assert!(matches!(error, TrainError::Drift { .. }), "{error}");
        assert!(error.to_string().contains("of rank 1"), "{error}");
    }
}

#[test]
fn a_rank_that_loses_its_device_ends_the_run_of_all() {
    let device = device(None);
    let setting = setting(&device, OptimizerKind::AdamW);
    let [first, second] = two_ranks([setting.clone(), setting], async |rank, step, running| {
        if (rank, step) == (1, 5) {
            running.gpu().device.destroy();
        }
    });
    let (first, second) = (first.expect_err("an end"), second.expect_err("a loss"));
    assert!(second.is_loss(), "{second}");
    assert!(matches!(first, TrainError::Workers(_)), "{first}");
    assert_eq!(first.to_string(), format!("rank 1: {second}"));
}
