//! A simulated machine: what its methods truly take, and what disturbs the trials.
//!
//! These scenarios and their seeds are fixed. A rule is changed until it does well here; a scenario is never changed so
//! that a rule does well. What they are made of was measured on a virtual disk: noise of a trial of 3 to 13 %, a
//! correlation within rounds of a half to two thirds, a host that is bimodal by 1.5 and that serves reads 10 to 20 times as
//! fast until a credit is used up, and a standard deviation between sittings of 0 to 13 %, most often 4 %.

use std::time::Duration;

use seekless_record::{Run, Trial};
use seekless_results::statistics::draw_normal;
use seekless_results::{Decider, Group, Next, conclude_now, planned_trials, simulation};

/// Methods of a contest, from simple to special.
#[rustfmt::skip]
const METHODS: [&str; 16] = [
    "read/sync,block=64K", "read/sync,block=256K", "read/sync,block=1M", "read/sync,block=256K,hint=sequential",
    "read/sync,block=1M,hint=sequential", "read/sync,direct,block=256K", "read/sync,direct,block=1M",
    "read/sync,direct,block=4M", "read/mmap", "read/mmap,hint=populate", "read/double-buffer,block=256K",
    "read/double-buffer,block=1M", "read/posix-aio,block=1M", "read/threads=4,block=1M",
    "read/io_uring,depth=4,block=256K", "read/io_uring,depth=8,direct,block=256K",
];
/// Contests of a default run.
const CONTESTS: usize = 8;
/// The budget of a default run.
const BUDGET_SECONDS: f64 = 60.0;
/// What the fastest method of a contest takes.
const FASTEST_SECONDS: f64 = 0.030;
/// The budget of a pair, and what its faster method takes.
const PAIR_BUDGET_SECONDS: f64 = 5.0;
const PAIR_SECONDS: f64 = 0.150;
/// What a trial takes besides: setting it up, dropping the cache, checking its result, settling.
const OVERHEAD_SECONDS: f64 = 0.045;
/// Methods that are near the best are so near, in logarithms.
const NEAR: f64 = 0.06;
/// The others are at most so far.
const FAR: f64 = 1.2;
/// How long what disturbs the trials lasts: two thirds of a round of a contest.
const DRIFT_SECONDS: f64 = 3.0;
/// How often the host changes between its two modes, and what a trial takes longer in the second.
const MODE_SECONDS: f64 = 5.0;
const MODE_FACTOR: f64 = 1.5;
/// How often the host bursts, and how long that lasts.
const BURST_EVERY_SECONDS: f64 = 20.0;
const BURST_SECONDS: f64 = 0.4;

/// What disturbs the trials.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name in the table.
    pub name: &'static str,
    /// The deviation of the logarithm of a trial; half of its variance is drift that the trials of a round share.
    pub noise: f64,
    /// Whether one trial in twenty is off by far more.
    pub has_tails: bool,
    /// Whether the host serves reads 10 to 20 times as fast now and then.
    pub bursts: bool,
    /// Whether it has two modes.
    pub has_modes: bool,
    /// The deviation of the logarithm of what a method takes, from sitting to sitting.
    pub sittings: f64,
    /// How far all methods are apart, in logarithms; else 2 to 5 of them are near the best and the others far.
    pub spread: Option<f64>,
    /// Only two methods, of which one takes this many times as long, in one contest of larger files, and 5 s for it.
    pub pair: Option<f64>,
}

const QUIET: Scenario = Scenario {
    name: "noise 3 %",
    noise: 0.03,
    has_tails: false,
    bursts: false,
    has_modes: false,
    sittings: 0.0,
    spread: None,
    pair: None,
};
const USUAL: Scenario = Scenario {
    name: "noise 13 %",
    noise: 0.13,
    ..QUIET
};

/// All of them, in the order of the table.
#[rustfmt::skip]
pub const SCENARIOS: [Scenario; 15] = [
    QUIET,
    Scenario { name: "noise 6 %", noise: 0.06, ..QUIET },
    USUAL,
    Scenario { name: "noise 25 %", noise: 0.25, ..QUIET },
    Scenario { name: "13 %, heavy tails", has_tails: true, ..USUAL },
    Scenario { name: "13 %, bursts", bursts: true, ..USUAL },
    Scenario { name: "13 %, two modes", has_modes: true, ..USUAL },
    Scenario { name: "13 %, all of these", has_tails: true, bursts: true, has_modes: true, ..USUAL },
    Scenario { name: "13 %, all methods equal", spread: Some(0.0), ..USUAL },
    Scenario { name: "3 %, all methods equal", spread: Some(0.0), ..QUIET },
    Scenario { name: "13 %, all within 16 %", spread: Some(0.15), ..USUAL },
    Scenario { name: "6 %, all within 16 %", noise: 0.06, spread: Some(0.15), ..USUAL },
    Scenario { name: "13 %, 4 % between sittings", sittings: 0.04, ..USUAL },
    Scenario { name: "13 %, 8 % between sittings", sittings: 0.08, ..USUAL },
    Scenario { name: "13 %, bursts, a pair in 5 s", bursts: true, pair: Some(1.4), ..USUAL },
];

/// Seconds that each entry of each contest truly takes.
pub type Truth = Vec<Vec<f64>>;

/// Random numbers with a seed.
pub struct Chance(fastrand::Rng);

impl Chance {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.f64()
    }

    fn normal(&mut self) -> f64 {
        draw_normal(&mut self.0)
    }

    /// Whether something that happens every this many seconds happens in this time.
    fn happens(&mut self, seconds: f64, every_seconds: f64) -> bool {
        self.0.f64() < 1.0 - (-seconds / every_seconds).exp()
    }
}

impl Scenario {
    /// What the methods of all contests truly take, whatever the hour.
    pub fn truth(&self, chance: &mut Chance) -> Truth {
        if let Some(apart) = self.pair {
            return vec![vec![PAIR_SECONDS * apart, PAIR_SECONDS]];
        }
        let contest = |_| {
            let near = chance.0.usize(2..=5);
            let mut slower: Vec<f64> = (0..METHODS.len())
                .map(|rank| match rank {
                    0 => 0.0,
                    _ if self.spread.is_some() => chance.uniform(0.0, self.spread.unwrap_or_default()),
                    rank if rank < near => chance.uniform(0.0, NEAR),
                    _ => chance.uniform(NEAR, FAR),
                })
                .collect();
            chance.0.shuffle(&mut slower);
            slower.iter().map(|slower| FASTEST_SECONDS * slower.exp()).collect()
        };
        (0..CONTESTS).map(contest).collect()
    }

    /// What they take in one sitting.
    pub fn this_hour(&self, truth: &Truth, chance: &mut Chance) -> Truth {
        let mut now = truth.clone();
        for seconds in now.iter_mut().flatten() {
            *seconds *= (self.sittings * chance.normal()).exp();
        }
        now
    }

    /// A sitting as the decider asks for it, concluded.
    pub fn sit(&self, this_hour: &Truth, seed: u64) -> Run {
        let mut run = simulation::run(&METHODS.map(|method| (method, 1.0)), 0);
        let mut entries = run.contests.remove(0).entries;
        entries.truncate(this_hour[0].len());
        let contest = |index: usize| simulation::contest(1_u64 << (20 + index), entries.clone());
        run.contests = (0..this_hour.len()).map(contest).collect();
        let (fastest, budget) = match self.pair {
            Some(_) => (PAIR_SECONDS, PAIR_BUDGET_SECONDS),
            None => (FASTEST_SECONDS, BUDGET_SECONDS),
        };
        let expected = planned_trials(this_hour[0].len()) as f64 * (fastest + OVERHEAD_SECONDS);
        let mut groups = Group::remaining(&mut run);
        for group in &mut groups {
            group.expected = Duration::from_secs_f64(expected);
        }
        let budget = Duration::from_secs_f64(budget);
        let mut decider = Decider::new(&run, groups, None, budget, seed);
        let mut machine = Machine::new(*self, Chance::new(seed));
        while let Some(next) = decider.next(&mut run, Duration::from_secs_f64(machine.now), |_| true) {
            let Next::Trial(turn) = next else { continue };
            let at_seconds = machine.now;
            let seconds = machine.trial(this_hour[turn.contest][turn.entry]);
            run.trials.push(Trial {
                contest: turn.contest,
                phase: turn.phase,
                at_seconds,
                ..simulation::trial(turn.entry, turn.round, seconds)
            });
        }
        conclude_now(&mut run);
        run
    }

    /// The deviation of the drift, and of what each trial has for itself.
    fn part(&self) -> f64 {
        self.noise * std::f64::consts::FRAC_1_SQRT_2
    }

    /// Rounds of one pair of entries, in another sitting: the seconds of one over those of the other.
    pub fn ratios(&self, [one, other]: [f64; 2], rounds: u32, seed: u64) -> Vec<f64> {
        let mut machine = Machine::new(*self, Chance::new(seed));
        let round = |_| machine.trial(one) / machine.trial(other);
        (0..rounds).map(round).collect()
    }
}

/// What a machine does while trials run on it.
struct Machine {
    scenario: Scenario,
    chance: Chance,
    now: f64,
    drift: f64,
    is_slow_mode: bool,
    burst_until: f64,
    burst_factor: f64,
}

impl Machine {
    fn new(scenario: Scenario, mut chance: Chance) -> Self {
        Self {
            drift: scenario.part() * chance.normal(),
            is_slow_mode: chance.0.bool(),
            scenario,
            chance,
            now: 0.0,
            burst_until: 0.0,
            burst_factor: 1.0,
        }
    }

    /// The seconds of a trial of what truly takes so many; the clock goes on.
    fn trial(&mut self, truth_seconds: f64) -> f64 {
        let Scenario {
            has_tails,
            bursts,
            has_modes,
            ..
        } = self.scenario;
        let mut own = self.scenario.part() * self.chance.normal();
        if has_tails && self.chance.0.u8(..20) == 0 {
            own *= 5.0;
        }
        let mut seconds = truth_seconds * (self.drift + own).exp();
        if has_modes && self.is_slow_mode {
            seconds *= MODE_FACTOR;
        }
        if self.now < self.burst_until {
            seconds /= self.burst_factor;
        }
        self.pass(seconds + OVERHEAD_SECONDS, bursts);
        seconds
    }

    fn pass(&mut self, seconds: f64, bursts: bool) {
        self.now += seconds;
        let kept = (-seconds / DRIFT_SECONDS).exp();
        self.drift = self.drift * kept + self.scenario.part() * (1.0 - kept * kept).sqrt() * self.chance.normal();
        if self.chance.happens(seconds, MODE_SECONDS) {
            self.is_slow_mode = !self.is_slow_mode;
        }
        if bursts && self.chance.happens(seconds, BURST_EVERY_SECONDS) {
            self.burst_until = self.now + BURST_SECONDS;
            self.burst_factor = self.chance.uniform(10.0, 20.0);
        }
    }
}
