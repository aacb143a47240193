//! The suite that a backend of Tenure must pass. It tests a backend through the traits of `tenure-core` alone, so a third party's is
//! tested like ours; it proves what it tests, under the faults it makes, and no more.
//!
//! # Testing your own backend
//! Implement [`Harness`], and let [`conformance!`] make one test of every case:
//!
//! ```
//! use std::sync::Arc;
//! use tenure_conformance::Harness;
//! use tenure_core::{Backend, ContenderId, MemoryBackend, QueueName, async_trait};
//!
//! struct Mine(MemoryBackend);
//!
//! #[async_trait]
//! impl Harness for Mine {
//!     async fn client(&self) -> Arc<dyn Backend> {
//!         Arc::new(self.0.other_client())
//!     }
//!     async fn remove(&self, queue: &QueueName, id: &ContenderId) {
//!         self.0.remove(queue, id);
//!     }
//! }
//!
//! tenure_conformance::conformance! {
//!     harness: async { Mine(MemoryBackend::new()) },
//!     excused: [],
//! }
//! # fn main() {}
//! ```
//!
//! Each case gets a harness of its own. A case that your backend cannot pass is listed in `excused` with the reason
//! (`excused: [("case", "reason")]`); the list is printed, and a name in it that is no case fails.

#![expect(clippy::print_stdout, reason = "a suite reports beside the results of its tests")]

use std::{future::Future, sync::Arc, time::Duration};

use tenure_core::{Backend, ContenderId, Coordinator, Options, QueueName, async_trait};

pub mod bare;
pub mod contract;
mod coordinators;
pub mod data;
pub mod dice;
mod entries;
pub mod faults;
pub mod fenced;
pub mod flaky;
pub mod history;
pub mod locks;
pub mod netns;
pub mod proxy;
pub mod server;
pub mod waits;

/// How the suite reaches a service, and does to it what an operator can do.
#[async_trait]
pub trait Harness: Send + Sync {
    /// A new client of the same service and namespace, as another process would have.
    async fn client(&self) -> Arc<dyn Backend>;

    /// Removes an entry, as an operator would.
    async fn remove(&self, queue: &QueueName, id: &ContenderId);

    /// The shortest ttl that the service grants; at least a second.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// The longest time between the end of a session's ttl and the end of its entries.
    fn expiry_slack(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// Conveniences on every harness.
#[async_trait]
pub trait HarnessExt: Harness {
    /// A coordinator over a client of its own, with the shortest ttl.
    async fn coordinator(&self) -> Coordinator {
        self.coordinator_over(self.client().await)
    }

    /// A coordinator over this client, with the shortest ttl.
    fn coordinator_over(&self, client: Arc<dyn Backend>) -> Coordinator {
        let mut options = Options::default();
        options.ttl = self.ttl();
        Coordinator::new(client, options).expect("a ttl of a second or more")
    }
}

impl<H: Harness + ?Sized> HarnessExt for H {}

/// A name that a test may use.
pub fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a good name")
}

/// Runs one case within a time limit, unless the backend is excused from it.
#[doc(hidden)]
pub async fn run(case: &str, excused: &[(&str, &str)], test: impl Future<Output = ()>) {
    match excused.iter().find(|(name, _)| *name == case) {
        Some((_, reason)) => println!("excused from {case}: {reason}"),
        None => tokio::time::timeout(Duration::from_secs(60), test).await.expect("the case ends within a minute"),
    }
}

/// Prints who is excused from what, and refuses names that are no cases.
#[doc(hidden)]
pub fn report_excused(excused: &[(&str, &str)], cases: &[&str]) {
    println!("{} cases, {} excused", cases.len(), excused.len());
    for (name, reason) in excused {
        println!("excused from {name}: {reason}");
        assert!(cases.contains(name), "'{name}' is no case");
    }
}

/// One `#[tokio::test]` for every case of the suite. See the [crate's page](crate).
#[macro_export]
macro_rules! conformance {
    (harness: $harness:expr, excused: $excused:expr $(,)?) => {
        $crate::cases! { $harness, $excused;
            contract: [
                entering_twice_makes_one_entry,
                entries_are_appended_and_their_tokens_rise,
                tokens_rise_over_emptied_queues_and_ended_sessions,
                an_entry_made_anew_is_another_one,
                a_snapshot_shows_what_was_done_before,
                leaving_removes_only_what_is_ours,
                a_call_that_was_dropped_can_be_undone,
                closing_ends_the_session_and_its_entries,
                a_session_ends_after_its_ttl_and_not_before,
                keep_alive_keeps_alive_and_does_not_raise_the_dead,
                values_are_read_and_written_by_version,
                values_of_all_sizes,
                names_of_all_kinds_are_strangers_to_each_other,
                the_token_base_is_settled_once,
            ];
            waits: [
                waiting_for_one_to_go_ends_when_it_leaves,
                waiting_for_one_to_go_ends_when_its_session_closes_or_expires,
                waiting_for_what_has_happened_ends_at_once,
                waiting_for_any_ahead_ends_with_any_of_them,
                waiting_for_anything_ends_with_anything,
            ];
            locks: [
                a_lock_excludes_and_hands_over,
                waiters_are_served_in_order_with_rising_tokens,
                a_hundred_contenders_lose_no_update,
                a_try_that_is_refused_leaves_nothing,
                two_tasks_on_one_coordinator_exclude_each_other,
                names_that_look_alike_do_not_meet,
                readers_share_and_writers_do_not,
                permits_admit_so_many_and_the_smallest_limit_counts,
                a_waiter_that_gives_up_leaves_nothing,
                a_cancelled_lock_leaves_nothing_at_any_time,
            ];
            faults: [
                a_silent_backend_is_lost_before_the_next_grant,
                a_lost_lock_stays_lost_and_the_next_one_is_fresh,
                a_removed_entry_is_told_within_a_second,
                a_removed_waiter_enters_anew,
                closing_leaves_nothing,
                locks_work_while_calls_fail,
            ];
            fenced: [
                a_waiter_may_not_write,
                who_held_before_may_not_write_and_is_told_who_does,
                entries_of_others_are_no_licence,
            ];
            data: [
                a_holder_writes_and_anybody_reads,
                a_version_that_does_not_match_changes_nothing,
                versions_rise_and_are_never_used_again,
                a_conditional_write_whose_answer_is_lost_is_done_once,
                a_write_whose_answer_is_lost_is_unknown_and_sent_once,
                a_lost_guard_writes_nothing_and_asks_nobody,
                data_of_names_and_keys_that_look_alike_do_not_meet,
                data_of_all_sizes,
                data_is_in_nobodys_way_and_outlives_its_writer,
                nothing_is_lost_while_calls_fail,
            ];
        }
    };
}

/// The list of cases, made into tests.
#[doc(hidden)]
#[macro_export]
macro_rules! cases {
    ($harness:expr, $excused:expr; $($module:ident: [$($case:ident),* $(,)?];)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::run(stringify!($case), &$excused, async { $crate::$module::$case(&$harness.await).await }).await;
            }
        )*)*

        #[test]
        fn excused_cases_are_cases() {
            $crate::report_excused(&$excused, &[$($(stringify!($case)),*),*]);
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_in_the_list() {
        let list = include_str!("lib.rs").split("macro_rules! conformance").nth(1).expect("the macro");
        let listed: Vec<_> =
            list.lines().filter_map(|line| line.trim().strip_suffix(',')).filter(|name| !name.contains(' ')).collect();
        let mut cases = 0;
        for source in [
            include_str!("contract.rs"),
            include_str!("waits.rs"),
            include_str!("locks.rs"),
            include_str!("faults.rs"),
            include_str!("fenced.rs"),
            include_str!("data.rs"),
        ] {
            for line in source.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
                let name = line.split(['<', '(']).next().expect("a name");
                assert!(listed.contains(&name), "{name} is not in the list");
                cases += 1;
            }
        }
        assert!(cases > 40, "{cases}");
    }
}
