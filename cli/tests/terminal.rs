//! At a terminal: the command has it while it runs, and the shell's job control works.
//!
//! What is stopped here is bash: dash starts programs by vfork, and cannot stop if its child is stopped before its exec.

mod support;

use std::{
    fs::File,
    io::Write,
    process::{ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use support::{Room, Running, is_alive, until};

/// A shell with job control, at a terminal of its own; what it shows goes to the file `screen`.
struct Shell<'a> {
    room: &'a Room,
    keys: ChildStdin,
    _process: Running,
}

impl<'a> Shell<'a> {
    fn open(room: &'a Room) -> Self {
        let screen = File::create(room.path("screen")).expect("made");
        let mut script = Command::new("script"); // of bsdutils, which every Debian has
        script.args(["-q", "-c", "bash --norc --noprofile -i", "/dev/null"]).current_dir(room.path("."));
        script.stdin(Stdio::piped()).stdout(screen).stderr(Stdio::null());
        script
            .env("TENURE_URL", room.url())
            .env("T", env!("CARGO_BIN_EXE_tenure"))
            .env("PS1", "$ ")
            .env("HISTFILE", "");
        let mut process = script.spawn().expect("script(1) starts");
        let keys = process.stdin.take().expect("a pipe");
        Self { room, keys, _process: process.into() }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads");
    }

    /// A whole line. The tests write `co''de` where the echo of the line must not be taken for its outcome.
    fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\r"));
    }

    fn until_shown(&self, what: &str) {
        self.until(what, || self.room.read("screen").contains(what));
    }

    fn until_file(&self, name: &str) {
        self.until(name, || self.room.path(name).exists());
    }

    /// A failure shows what was on the screen, and how the processes stood.
    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            if start.elapsed() > support::LONG {
                let pids: Vec<String> = self.room.inhabitants().iter().map(i32::to_string).collect();
                let mut list = Command::new("ps");
                let list = list.args(["-o", "pid,ppid,pgid,tpgid,stat,wchan:20,args", "-p", &pids.join(",")]).output();
                let list = list.map(|list| support::text(&list.stdout)).unwrap_or_default();
                panic!("waited in vain for {what}:\n{}\n{list}", self.room.read("screen"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn keys_reach_the_command_and_its_code_reaches_the_shell() {
    let room = Room::new();
    let mut shell = Shell::open(&room);
    shell.enter(r#"$T lock job sh -c 'read x; echo "re""ad:$x"; trap "exit 5" INT; touch ready; while :; do sleep 0.05; done'; echo co''de $?"#);
    until("the lock", || room.path("tenure.db").exists());
    shell.enter("hello");
    shell.until_shown("read:hello");
    shell.until_file("ready");
    shell.press("\x03");
    shell.until_shown("code 5");
}

/// It may have asked just before it was lent, and be stopped just after.
#[test]
fn a_command_that_asked_too_early_is_not_taken_for_stopped() {
    let room = Room::new();
    let mut shell = Shell::open(&room);
    shell.enter(r#"$T lock job sh -c 'kill -TTIN $$; read x; echo "re""ad:$x"'; echo co''de $?"#);
    until("the lock", || room.path("tenure.db").exists());
    shell.enter("hello");
    shell.until_shown("read:hello");
    shell.until_shown("code 0");
}

/// Without a terminal HUP means to reload, and ends no candidacy; with one, the terminal has hung up.
#[test]
fn hup_ends_a_candidacy_at_a_terminal() {
    let room = Room::new();
    let _leader = room.start_ready(&["job"], "touch ready; sleep 60");
    let mut shell = Shell::open(&room);
    shell.enter("$T elect job touch ran & sleep 0.5; until kill -HUP $!; do :; done; wait $!; echo co''de $?");
    shell.until_shown("code 129");
}

#[test]
fn the_terminal_is_given_back_to_a_script_without_job_control() {
    let room = Room::new();
    let mut shell = Shell::open(&room);
    shell.enter(r#"sh -c '$T lock job sh -c "touch ready"; read x; echo "re""ad:$x"'"#);
    shell.until_file("ready");
    shell.enter("hello");
    shell.until_shown("read:hello");
}

#[test]
fn in_a_pipeline_the_terminal_is_lent_when_the_command_asks_for_it() {
    let room = Room::new();
    let mut shell = Shell::open(&room);
    shell.enter(
        r#"$T lock job sh -c 'touch ready; read x < /dev/tty; echo "re""ad:$x"' | cat; echo co''de ${PIPESTATUS[0]}"#,
    );
    shell.until_file("ready");
    shell.enter("hello");
    shell.until_shown("read:hello");
    shell.until_shown("code 0");
}

#[test]
fn a_job_can_be_stopped_and_goes_on_in_the_foreground() {
    let room = Room::with_ttl("60s");
    let mut shell = Shell::open(&room);
    shell.enter("$T lock job bash -c 'touch ready; until [ -e go ]; do sleep 0.05; done; set -- $(cat /proc/$$/stat); [ $5 = $8 ] && touch foreground; touch asks; read x; echo \"re\"\"ad:$x\"; exit 6'; echo co''de $?");
    shell.until_file("ready");
    shell.press("\x1a");
    shell.until_shown("Stopped");
    shell.enter("touch pro''mpt go");
    shell.until_file("prompt");
    assert_eq!(room.entries(), 1);
    assert!(!room.path("asks").exists(), "it is stopped");
    shell.enter("fg; echo then $?");
    shell.until_file("asks");
    assert!(room.path("foreground").exists(), "it has the terminal again");
    shell.enter("hello");
    shell.until_shown("read:hello");
    shell.until_shown("then 6");
    until("the release", || room.entries() == 0);
}

#[test]
fn a_job_that_is_stopped_for_longer_than_its_ttl_is_killed_and_told() {
    let room = Room::with_ttl("2s");
    let mut shell = Shell::open(&room);
    shell.enter("$T lock job bash -c 'echo $$ > pid; touch ready; while :; do sleep 0.05; done'; echo co''de $?");
    shell.until_file("ready");
    let pid: i32 = room.read("pid").trim().parse().expect("a pid");
    shell.press("\x1a");
    shell.until_shown("Stopped");
    let look = format!("grep '^State:.[^ZX]' /proc/{pid}/status; echo looked");
    let successor = room.run(&["lock", "job", "sh", "-c", &look]);
    assert_eq!(support::text(&successor.stdout), "looked\n");
    assert!(!is_alive(pid));
    shell.enter("fg; echo then $?");
    shell.until_shown("the lock 'job' was lost");
    shell.until_shown("then 76");
}
