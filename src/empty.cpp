// The library partita takes all its code from partita_core; the linker wants one source file nonetheless.
