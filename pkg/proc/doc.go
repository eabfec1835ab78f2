// Package proc starts process groups on pipes and can always end them again.
// It owns the processes it started, whatever became of them: their groups,
// descendants that left the group, orphans that were re-parented to this
// process, and the record by which a successor finds what a killed daemon left
// behind (LIF-3, LIF-4, LIF-7).
// It never decides whether or when something is started: that is the restart
// package and the rooms above.
package proc
