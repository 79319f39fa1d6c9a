/* What the tool's exit codes mean; documented in holdfast(1). Numbers from
 * sysexits.h where it has one that fits. `run` ends with its command's own
 * code unless one of these applies. */
#ifndef HOLDFAST_CLI_EXIT_CODES_H
#define HOLDFAST_CLI_EXIT_CODES_H

enum exit_code {
    CLI_OK = 0,
    CLI_NOTHING_DONE = 1,  /* nothing to release, or the answer was no */
    CLI_USAGE = 64,        /* EX_USAGE */
    CLI_WRONG_TYPE = 65,   /* EX_DATAERR: the key is no lock */
    CLI_UNREACHABLE = 69,  /* EX_UNAVAILABLE: also a server that refuses */
    CLI_INTERNAL = 70,     /* EX_SOFTWARE */
    CLI_SYSTEM = 71,       /* EX_OSERR: also out of memory */
    CLI_OUTPUT = 74,       /* EX_IOERR: stdout cannot be written */
    CLI_NOT_ACQUIRED = 75, /* EX_TEMPFAIL; --conflict-exit-code */
    CLI_PROTOCOL = 76,     /* EX_PROTOCOL */
    CLI_DENIED = 77,       /* EX_NOPERM: authentication or permission */
    CLI_CONFIG = 78,       /* EX_CONFIG */
    CLI_LOST = 79,         /* the lock was lost while the command ran */
    CLI_CANNOT_EXECUTE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL_BASE = 128 /* + number of the signal that ended the command */
};

#endif
