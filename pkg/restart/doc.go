// Package restart decides when a process that exited is tried again, and when
// it is given up (LIF-2).
// It owns the rule and the counting; a History is a plain value that the
// caller keeps, one per supervised name.
// It never reads a clock, draws a random number, sleeps or starts anything:
// the time and the dice come in as arguments.
//
// # Decisions
//
//   - The supervisor library's backoff counts per supervisor, so that one
//     flapping service holds its healthy siblings back. The rule is therefore
//     ours and counts per name.
//   - Times are compared with [time.Time.Sub]. Times taken from time.Now carry
//     a monotonic reading, so a jump of the wall clock shortens or lengthens
//     nothing.
//   - Jitter only ever subtracts, at most a tenth. That keeps every delay
//     within its bounds without a second clamp, keeps doubled delays in order,
//     and still spreads a fleet that waits at the upper bound.
package restart
