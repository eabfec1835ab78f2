// Package inprocess runs a daemon and its bridges inside the test, where what
// they leave behind can be counted: goroutines and descriptors.
//
// It owns nothing but that count. What a daemon does is tested through the
// binary, in package integration; this package never looks at it closely.
//
// # Decisions
//
// A package of its own, because the daemon makes its process the subreaper of
// its children, and because nothing else may start goroutines meanwhile.
package inprocess
