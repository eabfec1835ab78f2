package wire

import (
	"errors"
	"strconv"
)

// Code names one kind of failure that harness itself reports to an agent
// (MCP-7). The spelling is part of the contract.
type Code string

// The codes of MCP-7.
const (
	UnknownHarness      Code = "unknown_harness"
	PermissionDenied    Code = "permission_denied"
	OperationFailed     Code = "operation_failed"
	UpstreamUnavailable Code = "upstream_unavailable"
	UnknownNamespace    Code = "unknown_namespace"
	UnknownTool         Code = "unknown_tool"
	InvalidArgument     Code = "invalid_argument"
	MessageTooLarge     Code = "message_too_large"
	Timeout             Code = "timeout"
	DaemonUnavailable   Code = "daemon_unavailable"
	OutputLimit         Code = "output_limit"
	InvalidEvidence     Code = "invalid_evidence"
	IdempotencyConflict Code = "idempotency_conflict"
	UnknownRun          Code = "unknown_run"
	Internal            Code = "internal"
)

// Sentinel errors, one for each [Code], for errors.Is. Every [*Error] with
// that code matches.
var (
	ErrUnknownHarness      = errors.New(string(UnknownHarness))
	ErrPermissionDenied    = errors.New(string(PermissionDenied))
	ErrOperationFailed     = errors.New(string(OperationFailed))
	ErrUpstreamUnavailable = errors.New(string(UpstreamUnavailable))
	ErrUnknownNamespace    = errors.New(string(UnknownNamespace))
	ErrUnknownTool         = errors.New(string(UnknownTool))
	ErrInvalidArgument     = errors.New(string(InvalidArgument))
	ErrMessageTooLarge     = errors.New(string(MessageTooLarge))
	ErrTimeout             = errors.New(string(Timeout))
	ErrDaemonUnavailable   = errors.New(string(DaemonUnavailable))
	ErrOutputLimit         = errors.New(string(OutputLimit))
	ErrInvalidEvidence     = errors.New(string(InvalidEvidence))
	ErrIdempotencyConflict = errors.New(string(IdempotencyConflict))
	ErrUnknownRun          = errors.New(string(UnknownRun))
	ErrInternal            = errors.New(string(Internal))
)

// sentinel returns the sentinel error of c, or nil for a code that has none.
func (c Code) sentinel() error {
	switch c {
	case UnknownHarness:
		return ErrUnknownHarness
	case PermissionDenied:
		return ErrPermissionDenied
	case OperationFailed:
		return ErrOperationFailed
	case UpstreamUnavailable:
		return ErrUpstreamUnavailable
	case UnknownNamespace:
		return ErrUnknownNamespace
	case UnknownTool:
		return ErrUnknownTool
	case InvalidArgument:
		return ErrInvalidArgument
	case MessageTooLarge:
		return ErrMessageTooLarge
	case Timeout:
		return ErrTimeout
	case DaemonUnavailable:
		return ErrDaemonUnavailable
	case OutputLimit:
		return ErrOutputLimit
	case InvalidEvidence:
		return ErrInvalidEvidence
	case IdempotencyConflict:
		return ErrIdempotencyConflict
	case UnknownRun:
		return ErrUnknownRun
	case Internal:
		return ErrInternal
	}
	return nil
}

// Error is one failure that harness reports to an agent. Only Code and
// Message are always there; the other fields are left out when zero.
type Error struct {
	Code     Code
	Message  string // one sentence, without secrets; safe to show to a model
	Upstream string // key of the upstream concerned
	State    string // its lifecycle state (LIF-1)
	// RetryIn is when the upstream is tried again, in milliseconds; nil when
	// that is not known.
	RetryIn     *int64
	Correlation string // identifies the log line of an internal error
}

// New returns an Error with a code and a sentence.
func New(code Code, message string) *Error { return &Error{Code: code, Message: message} }

// Error returns "[code] sentence", the text an agent sees (MCP-7).
func (e *Error) Error() string { return "[" + string(e.Code) + "] " + e.Message }

// Is reports whether target is the sentinel error of e's code.
func (e *Error) Is(target error) bool { return target != nil && e.Code.sentinel() == target }

// appendObject appends e as the JSON object of _meta["harness/error"] and of
// a JSON-RPC error's data.
func (e *Error) appendObject(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = AppendQuoted(dst, string(e.Code))
	dst = append(dst, `,"message":`...)
	dst = AppendQuoted(dst, e.Message)
	for _, f := range [...]struct{ key, value string }{
		{"upstream", e.Upstream}, {"state", e.State}, {"correlation_id", e.Correlation},
	} {
		if f.value != "" {
			dst = append(dst, `,"`...)
			dst = append(dst, f.key...)
			dst = append(dst, `":`...)
			dst = AppendQuoted(dst, f.value)
		}
	}
	if e.RetryIn != nil {
		dst = append(dst, `,"retry_in_ms":`...)
		dst = strconv.AppendInt(dst, *e.RetryIn, 10)
	}
	return append(dst, '}')
}

// AppendToolError appends the answer, without a newline, to the tools/call
// request with the raw id: a result with isError, "[code] sentence" as its
// text and e under _meta["harness/error"] (MCP-7).
func AppendToolError(dst, id []byte, e *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":{"content":[{"type":"text","text":`...)
	dst = AppendQuoted(dst, e.Error())
	dst = append(dst, `}],"isError":true,"_meta":{"harness/error":`...)
	dst = e.appendObject(dst)
	return append(dst, `}}}`...)
}

// JSON-RPC error numbers in use (MCP-7).
const (
	ParseError       = -32700
	InvalidRequest   = -32600
	MethodNotFound   = -32601
	InvalidParams    = -32602
	InternalError    = -32603
	ResourceNotFound = -32002
)

// AppendError appends the JSON-RPC error answer, without a newline, to the
// request with the raw id (null when nil), with e as its data.
func AppendError(dst, id []byte, number int, e *Error) []byte {
	dst = appendErrorHead(dst, id, number, e.Message)
	dst = append(dst, `,"data":`...)
	dst = e.appendObject(dst)
	return append(dst, `}}`...)
}

// AppendPlainError appends a JSON-RPC error answer that is the protocol's own
// and no [Code] of harness, without a newline: parse errors, unknown methods.
func AppendPlainError(dst, id []byte, number int, message string) []byte {
	return append(appendErrorHead(dst, id, number, message), `}}`...)
}

func appendErrorHead(dst, id []byte, number int, message string) []byte {
	if id == nil {
		id = []byte("null")
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(number), 10)
	dst = append(dst, `,"message":`...)
	return AppendQuoted(dst, message)
}

// AppendResult appends the answer, without a newline, to the request with the
// raw id. The raw result is copied as it is.
func AppendResult(dst, id, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendNotification appends a notification without params and without a
// newline. The method is trusted to need no escapes.
func AppendNotification(dst []byte, method string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"`...)
	dst = append(dst, method...)
	return append(dst, `"}`...)
}
