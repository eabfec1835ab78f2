// Package evidence keeps what has to be believed later: chains of records, each
// with the digest of the one before, in files that are written once, and a seal
// over all of them at the end (EVI-1, EVI-3, EVI-4). It knows nothing of what is
// recorded, and repairs nothing in silence.
//
// # Decisions
//
// chain.go and seal.go are pure: bytes in, bytes or the entry at fault out. A
// record has the digest of itself beside that of the one before, so that a
// changed byte is found in the last one too, which no other commits to. What is
// decoded is encoded again and compared: a record has one spelling.
//
// The first record carries the digest of the chain's name in place of one
// before it: records of one chain are none of another.
//
// A record is one file, 0400, made where none was and written at once. A crash
// leaves it whole, or torn: without the line break that ends it. A torn record
// can only be the last, and is moved aside and named in the record that takes
// its number. Everything else that is not as it was written is a fault with the
// entry's name, and nothing is returned of the chain then.
//
// Paths are opened below a directory that is open, without following a link in
// any component: with openat2, or one component after the other where the kernel
// or a filter does not have it. Not with os.Root, which follows links as long as
// they stay inside. That is what golang.org/x/sys/unix is for.
package evidence
