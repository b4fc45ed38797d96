//! Which system calls a sandboxed program may make.
//!
//! Namespaces decide what it sees; this takes away calls that widen the kernel's attack surface, that reach what is
//! not in a namespace (keyrings, vsock), or that hide memory from the watchdog. What is refused follows the default
//! profiles of Docker and Flatpak.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Calls with higher numbers are newer than this list, or of the x32 interface, which passes for x86-64: programs
/// are told that there are no such calls, and do without. Numbers above 423 are the same on all architectures.
const NEWEST: u32 = 462;

/// Calls that fail with EPERM.
const REFUSED: &[i64] = &[
    // Namespaces, mounts, roots.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Parts of the kernel with many holes in the past, and no use here.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    libc::SYS_personality,
    // Not in any namespace.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_syslog,
    // Memory that belongs to no process.
    libc::SYS_memfd_create,
    447, // memfd_secret
    libc::SYS_shmget,
    libc::SYS_mq_open,
    // The machine.
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// The flags of `clone` that make namespaces.
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

/// Families of sockets that a program without a network may want: its own machine is all there is.
const SOCKET_FAMILIES: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// Requests to a terminal that feed it input.
const TERMINAL_REQUESTS: &[u64] = &[0x5412 /* TIOCSTI */, 0x541C /* TIOCLINUX */];

/// The filter, as bubblewrap reads it. With `alone`, a program can start threads but no other process.
///
/// # Errors
/// On an architecture that the filter is not made for.
pub(crate) fn filter(alone: bool) -> Result<Vec<u8>, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(
        rules(alone)?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        architecture,
    )?;
    let program = BpfProgram::try_from(filter)?;
    Ok(no_such_call().iter().chain(&program).flat_map(instruction_bytes).collect())
}

fn rules(alone: bool) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let condition =
        |argument, length, operator, value| SeccompCondition::new(argument, length, operator, value);
    let dword = SeccompCmpArgLen::Dword;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|&call| (call, Vec::new())).collect();

    let clone = NAMESPACE_FLAGS.iter().map(|&flag| {
        let flag = flag as u64;
        SeccompRule::new(vec![condition(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?])
    });
    let mut clone: Vec<SeccompRule> = clone.collect::<Result<_, _>>()?;
    if alone {
        let is_thread = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64);
        clone.push(SeccompRule::new(vec![condition(0, SeccompCmpArgLen::Qword, is_thread, 0)?])?);
        #[cfg(target_arch = "x86_64")]
        rules.extend([libc::SYS_fork, libc::SYS_vfork].map(|call| (call, Vec::new())));
    }
    rules.insert(libc::SYS_clone, clone);

    // A rule matches when all of its conditions do: a family that is none of these.
    let families =
        SOCKET_FAMILIES.iter().map(|&family| condition(0, dword.clone(), SeccompCmpOp::Ne, family as u64));
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(families.collect::<Result<_, _>>()?)?]);

    let requests = TERMINAL_REQUESTS
        .iter()
        .map(|&request| SeccompRule::new(vec![condition(1, dword.clone(), SeccompCmpOp::Eq, request)?]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Goes before the rules: ENOSYS for calls that are too new, and for `clone3`, whose flags a filter cannot read, so
/// that libraries use `clone`.
fn no_such_call() -> [sock_filter; 4] {
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
