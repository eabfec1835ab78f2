package jsonrpc

// AppendErrorPrefix appends an upstream's error answer with the raw id of the
// request it now answers and with prefix before its message; every other byte
// is as sent, and so is a message that is missing or no string (MCP-7).
func AppendErrorPrefix(dst, line []byte, m *Message, id []byte, prefix string) []byte {
	message := m.ErrMessage
	if !message.Present() || line[message.Start] != '"' {
		return Splice(dst, line, Edit{m.ID, id})
	}
	quoted := AppendQuoted(nil, prefix)
	inside := Span{message.Start + 1, message.Start + 1}
	return Splice(dst, line, Edit{m.ID, id}, Edit{inside, quoted[1 : len(quoted)-1]})
}

// upstreamMeta is the key under which a failed result says whose it is (MCP-7).
const upstreamMeta = "harness/upstream"

// AppendUpstreamMark appends an upstream's answer, a result with isError, with
// the raw id of the request it now answers and two additions: the upstream's
// key under _meta["harness/upstream"], and a last text content "upstream
// <key>". Every other byte is as sent (MCP-7). A _meta or content that is null
// counts as missing and is replaced; one of a wrong type is left as it is.
func AppendUpstreamMark(dst, line []byte, m *Message, id []byte, key string) []byte {
	if !m.Result.Present() || line[m.Result.Start] != '{' {
		return Splice(dst, line, Edit{m.ID, id})
	}
	name := AppendQuoted(nil, key)
	content := AppendQuoted([]byte(`{"type":"text","text":`), "upstream "+key)
	content = append(content, '}')
	var added []byte // members the result has not got
	metaEdit, fresh := markMeta(line, m.ResultMeta, name)
	if fresh {
		added = append(append(append(added, `"_meta":{"`+upstreamMeta+`":`...), name...), '}')
	}
	contentEdit, fresh := markContent(line, m.Content, content)
	if fresh {
		added = comma(added, len(added) == 0)
		added = append(append(append(added, `"content":[`...), content...), ']')
	}
	end := Span{m.Result.End - 1, m.Result.End - 1}
	if len(added) > 0 {
		added = append(comma(nil, isEmpty(line, m.Result)), added...)
	} else {
		end = Span{}
	}
	return Splice(dst, line, Edit{m.ID, id}, metaEdit, contentEdit, Edit{end, added})
}

// markMeta returns the edit that puts the upstream's quoted name into the
// _meta at span, or fresh when there is no _meta to edit. A name that is there
// already, from a server that fronts others, is replaced: the agent asked ours.
func markMeta(line []byte, at Span, name []byte) (edit Edit, fresh bool) {
	raw := at.In(line)
	switch {
	case raw == nil:
		return Edit{}, true
	case string(raw) == "null":
		return Edit{at, append(append([]byte(`{"`+upstreamMeta+`":`), name...), '}')}, false
	case raw[0] != '{':
		return Edit{}, false
	}
	old, found, err := Member(raw, upstreamMeta)
	switch {
	case err != nil:
		return Edit{}, false
	case found:
		return Edit{Span{at.Start + old.Start, at.Start + old.End}, name}, false
	}
	with := append(comma(nil, isEmpty(line, at)), `"`+upstreamMeta+`":`...)
	return Edit{Span{at.End - 1, at.End - 1}, append(with, name...)}, false
}

// markContent returns the edit that appends one content item to the array at
// span, or fresh when there is no content to edit.
func markContent(line []byte, at Span, item []byte) (edit Edit, fresh bool) {
	raw := at.In(line)
	switch {
	case raw == nil:
		return Edit{}, true
	case string(raw) == "null":
		return Edit{at, append(append([]byte{'['}, item...), ']')}, false
	case raw[0] != '[':
		return Edit{}, false
	}
	return Edit{Span{at.End - 1, at.End - 1}, append(comma(nil, isEmpty(line, at)), item...)}, false
}

// isEmpty reports whether the array or object at span has nothing in it.
func isEmpty(line []byte, at Span) bool {
	s := scanner{b: line}
	return s.space(at.Start+1) == at.End-1
}

// comma appends a comma to dst unless what follows is the first of its kind.
func comma(dst []byte, isFirst bool) []byte {
	if isFirst {
		return dst
	}
	return append(dst, ',')
}
