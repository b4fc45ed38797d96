//! The system calls that a sandboxed program may make.
//!
//! Namespaces determine what it sees; this additionally denies calls that widen the kernel's attack surface, that
//! access what namespaces do not cover (keyrings, vsock), or that hide memory from the watchdog. The list follows the
//! default profiles of Docker and Flatpak.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use serde_json::{Value, json};

/// Calls with higher numbers are newer than this list, or belong to the x32 interface, which has the architecture
/// code of x86-64: programs see that these calls do not exist, and do without. Numbers above 423 are the same on
/// all architectures.
const NEWEST: u32 = 462;

/// Calls that fail with EPERM.
const REFUSED: &[(&str, i64)] = &[
    // Namespaces, mounts, roots.
    ("unshare", libc::SYS_unshare),
    ("setns", libc::SYS_setns),
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("pivot_root", libc::SYS_pivot_root),
    ("chroot", libc::SYS_chroot),
    ("open_tree", libc::SYS_open_tree),
    ("move_mount", libc::SYS_move_mount),
    ("fsopen", libc::SYS_fsopen),
    ("fsconfig", libc::SYS_fsconfig),
    ("fsmount", libc::SYS_fsmount),
    ("fspick", libc::SYS_fspick),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("name_to_handle_at", libc::SYS_name_to_handle_at),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    // Other processes.
    ("ptrace", libc::SYS_ptrace),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("kcmp", libc::SYS_kcmp),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    // Parts of the kernel with many past vulnerabilities, and no use here.
    ("bpf", libc::SYS_bpf),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("personality", libc::SYS_personality),
    // Not covered by namespaces.
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("keyctl", libc::SYS_keyctl),
    ("syslog", libc::SYS_syslog),
    // Memory that belongs to no process.
    ("memfd_create", libc::SYS_memfd_create),
    ("memfd_secret", 447),
    ("shmget", libc::SYS_shmget),
    ("semget", libc::SYS_semget),
    ("msgget", libc::SYS_msgget),
    ("mq_open", libc::SYS_mq_open),
    // The machine.
    ("acct", libc::SYS_acct),
    ("quotactl", libc::SYS_quotactl),
    ("swapon", libc::SYS_swapon),
    ("swapoff", libc::SYS_swapoff),
    ("reboot", libc::SYS_reboot),
    ("kexec_load", libc::SYS_kexec_load),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("settimeofday", libc::SYS_settimeofday),
    ("clock_settime", libc::SYS_clock_settime),
    ("adjtimex", libc::SYS_adjtimex),
    ("clock_adjtime", libc::SYS_clock_adjtime),
    ("sethostname", libc::SYS_sethostname),
    ("setdomainname", libc::SYS_setdomainname),
    ("vhangup", libc::SYS_vhangup),
];

/// The same for calls that exist only on some architectures.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[(&str, i64)] =
    &[("iopl", libc::SYS_iopl), ("ioperm", libc::SYS_ioperm), ("modify_ldt", libc::SYS_modify_ldt)];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[(&str, i64)] = &[];

/// Calls refused if the kernel does not count memory: those that hold memory that no process has mapped.
const REFUSED_WHERE_WATCHED: &[i64] = &[libc::SYS_vmsplice, libc::SYS_landlock_create_ruleset];

/// Anonymous shared memory: it exists as long as any process maps a page of it.
const SHARED_MEMORY: u64 = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;

/// Options of sockets that increase their buffers.
const SOCKET_BUFFERS: &[libc::c_int] = &[libc::SO_SNDBUF, libc::SO_RCVBUF];

/// The flags of `clone` that create namespaces.
const NAMESPACE_FLAGS: &[libc::c_int] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    0x80, // CLONE_NEWTIME
];

/// Families of sockets that are useful without a network, for connections within the sandbox.
const SOCKET_FAMILIES: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

const SOCKET_CALLS: [(&str, i64); 2] = [("socket", libc::SYS_socket), ("socketpair", libc::SYS_socketpair)];

/// Requests to a terminal that simulate input.
const TERMINAL_REQUESTS: &[u64] = &[0x5412 /* TIOCSTI */, 0x541C /* TIOCLINUX */];

/// The filters in the format that bubblewrap reads.
pub(crate) struct Filters([Vec<u8>; 4]);

impl Filters {
    pub(super) fn new() -> Result<Self, BackendError> {
        let compile = |no_fork, is_watched| filter(rules(no_fork, is_watched)?);
        Ok(Self([compile(false, false)?, compile(false, true)?, compile(true, false)?, compile(true, true)?]))
    }

    /// The filter for a program: with `no_fork` it can start threads but no other process; `is_watched` if no cgroup
    /// counts its memory.
    pub(super) fn filter(&self, no_fork: bool, is_watched: bool) -> &[u8] {
        &self.0[2 * usize::from(no_fork) + usize::from(is_watched)]
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(rules: Rules) -> Result<Vec<u8>, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let program =
        BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?)?;
    Ok(enosys_prelude().iter().chain(&program).flat_map(instruction_bytes).collect())
}

fn refused() -> impl Iterator<Item = (&'static str, i64)> {
    REFUSED.iter().chain(REFUSED_HERE).copied()
}

/// The filter for containers: a profile for Podman, derived from its own list of allowed calls `own` by removing what
/// is refused here.
pub(crate) fn profile(own: &str) -> serde_json::Result<String> {
    let mut profile: Value = serde_json::from_str(own)?;
    let namespaces: u64 = NAMESPACE_FLAGS.iter().map(|&flag| flag as u64).sum();
    let allow = |name: &str, argument: Value| json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument]});
    let mut rules = vec![allow(
        "clone",
        json!({"index": 0, "value": namespaces, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}),
    )];
    rules.extend(SOCKET_CALLS.iter().flat_map(|(call, _)| {
        SOCKET_FAMILIES.iter().map(|&family| {
            allow(call, json!({"index": 0, "value": family, "valueTwo": 0, "op": "SCMP_CMP_EQ"}))
        })
    }));
    let of_own = profile["syscalls"].as_array_mut().map(std::mem::take).unwrap_or_default();
    for mut rule in of_own {
        if rule["action"] == "SCMP_ACT_ALLOW"
            && let Some(names) = rule["names"].as_array_mut()
        {
            names.retain(|name| {
                let is = |call: &str| name.as_str() == Some(call);
                !["clone", "clone3", "socket", "socketpair"].into_iter().any(is)
                    && !refused().any(|(call, _)| is(call))
            });
            if names.is_empty() {
                continue;
            }
        }
        rules.push(rule);
    }
    profile["syscalls"] = Value::Array(rules);
    // Calls that are not in the list do not exist.
    profile["defaultAction"] = "SCMP_ACT_ERRNO".into();
    profile["defaultErrnoRet"] = libc::ENOSYS.into();
    Ok(profile.to_string())
}

fn rules(no_fork: bool, is_watched: bool) -> Result<Rules, BackendError> {
    let condition =
        |argument, length, operator, value| SeccompCondition::new(argument, length, operator, value);
    let dword = SeccompCmpArgLen::Dword;
    let mut rules: Rules = refused().map(|(_, call)| (call, Vec::new())).collect();

    let clone = NAMESPACE_FLAGS.iter().map(|&flag| {
        let flag = flag as u64;
        SeccompRule::new(vec![condition(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?])
    });
    let mut clone: Vec<SeccompRule> = clone.collect::<Result<_, _>>()?;
    if no_fork {
        let is_thread = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64);
        clone.push(SeccompRule::new(vec![condition(0, SeccompCmpArgLen::Qword, is_thread, 0)?])?);
        #[cfg(target_arch = "x86_64")]
        rules.extend([libc::SYS_fork, libc::SYS_vfork].map(|call| (call, Vec::new())));
    }
    rules.insert(libc::SYS_clone, clone);

    // A rule matches if all of its conditions do: the family is none of these.
    for (_, call) in SOCKET_CALLS {
        let families = SOCKET_FAMILIES
            .iter()
            .map(|&family| condition(0, dword.clone(), SeccompCmpOp::Ne, family as u64));
        rules.insert(call, vec![SeccompRule::new(families.collect::<Result<_, _>>()?)?]);
    }

    let requests = TERMINAL_REQUESTS
        .iter()
        .map(|&request| SeccompRule::new(vec![condition(1, dword.clone(), SeccompCmpOp::Eq, request)?]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);

    if is_watched {
        rules.extend(REFUSED_WHERE_WATCHED.iter().map(|&call| (call, Vec::new())));
        let is_shared = SeccompCmpOp::MaskedEq(SHARED_MEMORY);
        let shared = condition(3, dword.clone(), is_shared, SHARED_MEMORY)?;
        rules.insert(libc::SYS_mmap, vec![SeccompRule::new(vec![shared])?]);
        let buffers = SOCKET_BUFFERS.iter().map(|&option| {
            let level = condition(1, dword.clone(), SeccompCmpOp::Eq, libc::SOL_SOCKET as u64)?;
            SeccompRule::new(vec![level, condition(2, dword.clone(), SeccompCmpOp::Eq, option as u64)?])
        });
        rules.insert(libc::SYS_setsockopt, buffers.collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// Precedes the rules: returns ENOSYS for calls that are too new, and for `clone3`, whose flags a filter cannot read,
/// so that libraries use `clone`.
fn enosys_prelude() -> [sock_filter; 4] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    [
        // The number of the call is the first word of the data.
        instruction(LOAD_WORD, 0, 0, 0),
        instruction(JUMP_IF_EQUAL, 1, 0, libc::SYS_clone3 as u32),
        instruction(JUMP_IF_GREATER, 0, 1, NEWEST),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    ]
}

fn instruction_bytes(instruction: &sock_filter) -> [u8; 8] {
    let [code_0, code_1] = instruction.code.to_ne_bytes();
    let [k_0, k_1, k_2, k_3] = instruction.k.to_ne_bytes();
    [code_0, code_1, instruction.jt, instruction.jf, k_0, k_1, k_2, k_3]
}
