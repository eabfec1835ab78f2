package control

import (
	"encoding/json"
	"errors"
	"net/http"

	"harness/pkg/wire"
)

// Codes of a [Problem] that only this interface knows; the others are those of
// [wire.Code].
const (
	// CodeAPIVersion: client and daemon speak different majors (CLI-5).
	CodeAPIVersion wire.Code = "api_version"
	// CodeUnknownPath: this version of the interface has no such path.
	CodeUnknownPath wire.Code = "unknown_path"
)

// maxProblem bounds how much of an error answer a client reads, in bytes.
const maxProblem = 64 << 10

// Problem is why a request was refused or failed, for a person: Message is one
// sentence without a full stop, Hint (may be empty) is what to do next. An
// operation that returns one has it delivered to the client as it is.
type Problem struct {
	Code    wire.Code `json:"code"`
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
}

// Error implements error. The hint is left to whoever prints it.
func (p *Problem) Error() string { return p.Message }

// problemOf makes a Problem of any error an operation returned.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	return &Problem{Code: wire.OperationFailed, Message: err.Error()}
}

// status is the HTTP status a problem travels under. Clients read the body; the
// number is for people with curl.
func (p *Problem) status() int {
	switch p.Code {
	case wire.InvalidArgument, CodeAPIVersion:
		return http.StatusBadRequest
	case wire.UnknownHarness, wire.UnknownRun, CodeUnknownPath:
		return http.StatusNotFound
	case wire.IdempotencyConflict:
		return http.StatusConflict
	case wire.PermissionDenied:
		return http.StatusForbidden
	default:
		return http.StatusInternalServerError
	}
}

// parseProblem reads the body of an answer that is no success. Whatever it is,
// the result is a Problem that can be printed.
func parseProblem(status string, body []byte) *Problem {
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Message == "" {
		return &Problem{Code: wire.OperationFailed, Message: "the daemon answered " + status}
	}
	return &p
}
