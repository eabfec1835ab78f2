package jsonrpc

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// oracleValid is what Valid must agree with.
func oracleValid(line []byte) bool { return json.Valid(line) && utf8.Valid(line) }

// oracleMember is one member of an object as encoding/json sees it.
type oracleMember struct {
	key string
	at  Span // of the raw value, in the object
}

// oracleMembers lists the members of a valid raw object, or nothing for
// another value.
func oracleMembers(raw []byte) []oracleMember {
	var members []oracleMember
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return members
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return members
		}
		end := int(dec.InputOffset())
		members = append(members, oracleMember{key.(string), Span{end - len(value), end}})
	}
	return members
}

// oracleField is one field of Message and where it is found.
type oracleField struct {
	span *Span
	path []string
}

func oracleFields(m *Message) []oracleField {
	return []oracleField{
		{&m.ID, []string{"id"}},
		{&m.Method, []string{"method"}},
		{&m.Params, []string{"params"}},
		{&m.Result, []string{"result"}},
		{&m.Error, []string{"error"}},
		{&m.Name, []string{"params", "name"}},
		{&m.Cursor, []string{"params", "cursor"}},
		{&m.URI, []string{"params", "uri"}},
		{&m.Ref, []string{"params", "ref"}},
		{&m.RefName, []string{"params", "ref", "name"}},
		{&m.RefURI, []string{"params", "ref", "uri"}},
		{&m.RequestID, []string{"params", "requestId"}},
		{&m.ParamsToken, []string{"params", "progressToken"}},
		{&m.Meta, []string{"params", "_meta"}},
		{&m.ProgressToken, []string{"params", "_meta", "progressToken"}},
		{&m.isError, []string{"result", "isError"}},
		{&m.Content, []string{"result", "content"}},
		{&m.ResultMeta, []string{"result", "_meta"}},
		{&m.ErrMessage, []string{"error", "message"}},
	}
}

// oracleFind returns where the value at path is in a valid raw object, and
// whether a key of path is there twice.
func oracleFind(raw []byte, path []string) (at Span, twice bool) {
	for _, member := range oracleMembers(raw) {
		switch {
		case member.key != path[0]:
		case at.Present():
			return at, true
		default:
			at = member.at
		}
	}
	if len(path) == 1 || !at.Present() {
		return at, false
	}
	inner, twice := oracleFind(raw[at.Start:at.End], path[1:])
	if !inner.Present() {
		return Span{}, twice
	}
	return Span{at.Start + inner.Start, at.Start + inner.End}, twice
}

// oraclePeek is what Peek must make of a line that oracleValid accepts.
func oraclePeek(line []byte) (*Message, error) {
	m := new(Message)
	switch bytes.TrimLeft(line, " \t\r\n")[0] {
	case '{':
	case '[':
		return m, ErrBatch
	default:
		return m, ErrNotObject
	}
	for _, f := range oracleFields(m) {
		at, twice := oracleFind(line, f.path)
		if twice {
			return m, ErrDuplicate
		}
		*f.span = at
	}
	m.IsError = string(m.isError.In(line)) == "true"
	m.classify(line)
	return m, nil
}
