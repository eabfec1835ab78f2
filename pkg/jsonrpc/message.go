package jsonrpc

// Span is a half-open range of bytes in one line. The zero Span means that
// there is nothing: no value starts at the first byte of a message, which is
// an object.
type Span struct{ Start, End int }

// Present reports whether there is something at s.
func (s Span) Present() bool { return s.End > s.Start }

// In returns the bytes of line at s, or nil when s is absent. They are a part
// of line, and appending to them never writes into it.
func (s Span) In(line []byte) []byte {
	if !s.Present() {
		return nil
	}
	return line[s.Start:s.End:s.End]
}

// Message says where things are in one line; nothing is decoded. Every Span
// holds a raw JSON value, the quotes of a string included, and is absent when
// the key is, or when the value around it is no object. Keys are found
// decoded: "\u0069d" is "id" (PRF-1).
type Message struct {
	ID, Method, Params, Result, Error Span

	// Inside params.
	Name, URI, Cursor, RequestID Span
	Ref, RefName, RefURI         Span // params.ref and its name and uri, of completion/complete
	ParamsToken                  Span // params.progressToken, of notifications/progress
	Meta                         Span // params._meta
	ProgressToken                Span // params._meta.progressToken

	// Inside result.
	IsError    bool // result.isError is literally true
	Content    Span // result.content
	ResultMeta Span // result._meta

	// Inside error.
	ErrMessage Span // error.message

	isError Span
	kind    Kind
}

// Kind is what a message is by the keys it has.
type Kind uint8

// The kinds of message. A request has a method and an id that is a string or
// a number; a notification has a method and no id; a response has an id, a
// result or an error, and no method. Everything else is invalid, an id of null
// beside a method included.
const (
	Invalid Kind = iota
	Request
	Notification
	Response
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Response:
		return "response"
	}
	return "invalid message"
}

// Kind returns what the message is. It is known once [Peek] or [PeekValid] has
// returned, whatever error they returned.
func (m *Message) Kind() Kind { return m.kind }

// classify settles m's kind. A method of null is no method: some writers spell
// out the keys they leave empty.
func (m *Message) classify(line []byte) {
	answered := m.Result.Present() || m.Error.Present()
	named := m.Method.Present() && string(m.Method.In(line)) != "null"
	switch {
	case named && line[m.Method.Start] != '"', named && answered:
		m.kind = Invalid
	case named && !m.ID.Present():
		m.kind = Notification
	case named && isID(m.ID.In(line)):
		m.kind = Request
	case !named && answered && m.ID.Present():
		m.kind = Response
	default:
		m.kind = Invalid
	}
}

// ReplyID returns the raw id under which to say that the message is none, or
// nil where it has no id that can be answered: whoever waits under one should
// be told.
func (m *Message) ReplyID(line []byte) []byte {
	if id := m.ID.In(line); isID(id) && m.kind != Response {
		return id
	}
	return nil
}

// isID reports whether a raw value can be a request's id: a string or a number.
func isID(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9')
}
