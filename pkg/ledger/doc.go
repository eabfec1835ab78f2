// Package ledger keeps what happened to each contract as a chain of signed
// entries, and checks such a chain anywhere (CON-4).
//
// It owns the ledger directory: one directory for each session with its chain,
// and the keys that entries are signed with. It also owns the shape of what is
// signed: entries, verdicts and the bundle that carries them elsewhere.
//
// It never runs anything, decides nothing about a verdict, and trusts nothing
// that it reads: every reader checks the whole chain.
//
// # Decisions
//
//   - A room of its own, beside the evidence of runs: a chain of receipts says
//     that files of this machine were not changed since, a ledger has to convince
//     somebody who has no access to this machine. It needs keys, signatures and a
//     form in which equal content is equal bytes; receipts need none of them.
//   - RFC 8785 (gowebpki/jcs) is that form: what is hashed and signed does not
//     depend on who wrote the JSON, so a verifier in another language needs a JSON
//     library, SHA-256 and ed25519, and nothing of ours. testdata has one.
//   - Each entry names session, principal, contract, time and key in its body. A
//     valid entry is thus valid in one place only.
//   - One file for each chain, appended to and fsynced: an entry is on the disk
//     before what it announces begins. A last line that was cut off by a crash is
//     set aside and noted by an entry of its own, never mended in silence.
//   - A rotated key signs its successor, and the successor signs that it follows
//     it. So whoever pinned any key of a ring can check what any other one signed.
//     The private half is destroyed, the public one is kept for ever.
//   - Time in entries is what the machine said, and no order is demanded of it: a
//     clock may be set back. The order is that of the chain.
package ledger
