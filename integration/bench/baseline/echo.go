package baseline

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// maxBlob is the largest answer of the blob tool, in bytes.
const maxBlob = 8 << 20

// echoServer is a cheap MCP server on stdio: it decodes each request, as any
// server does, and does next to nothing else.
//
//	echo {text}    the text
//	blob {bytes}   so many bytes of BlobText
//	pid            the process id
//	crash          exit 3, without an answer
//	announce       an answer, then notifications/tools/list_changed
//
// Further tools (-tools N) are named t000 and so on and answer as echo does.
type echoServer struct {
	out   io.Writer
	list  []byte // result of tools/list
	due   []byte // answers that are not written yet
	blobs map[int][]byte
}

// echoRequest is what the server reads of a line.
type echoRequest struct {
	ID     json.RawMessage
	Method string
	Params struct {
		ProtocolVersion string
		Name            string
		Arguments       struct {
			Text  string
			Bytes int
		}
	}
}

// runEcho is the role [EchoServer].
func runEcho(args []string) error {
	flags := flag.NewFlagSet(EchoServer, flag.ContinueOnError)
	extra := flags.Int("tools", 0, "further tools to offer")
	flags.String("mark", "", "ignored: makes one command line differ from another")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := &echoServer{out: os.Stdout, list: toolList(*extra), blobs: map[int][]byte{}}
	return s.serve(os.Stdin)
}

// toolList renders the result of tools/list.
func toolList(extra int) []byte {
	names := []string{"echo", "blob", "pid", "crash", "announce"}
	for i := range extra {
		names = append(names, fmt.Sprintf("t%03d", i))
	}
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf(`{"name":%q,"description":"The tool %s of a server that is here to be measured.",`+
			`"inputSchema":{"type":"object","properties":{"text":{"type":"string"},"bytes":{"type":"integer"}}}}`, name, name))
	}
	return []byte(`{"tools":[` + strings.Join(list, ",") + `]}`)
}

// serve answers until its input ends. What arrived together is answered with
// one write.
func (s *echoServer) serve(src io.Reader) error {
	in := NewIntake(src, 64<<10)
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var r echoRequest
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		if r.ID != nil {
			s.answer(&r)
		}
		if len(s.due) > 0 && !in.Ready() {
			if _, err := s.out.Write(s.due); err != nil {
				return err
			}
			s.due = s.due[:0]
		}
	}
}

// answer appends the answer to a request.
func (s *echoServer) answer(r *echoRequest) {
	s.due = append(append(s.due, `{"jsonrpc":"2.0","id":`...), r.ID...)
	switch r.Method {
	case "initialize":
		s.due = fmt.Appendf(s.due, `,"result":{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},`+
			`"serverInfo":{"name":"echo-server","version":"1"}}}`+"\n", r.Params.ProtocolVersion)
	case "tools/list":
		s.due = append(append(append(s.due, `,"result":`...), s.list...), "}\n"...)
	case "tools/call":
		s.call(r)
	case "ping":
		s.due = append(s.due, `,"result":{}}`+"\n"...)
	default:
		s.due = append(s.due, `,"error":{"code":-32601,"message":"method not found"}}`+"\n"...)
	}
}

// call appends the rest of the answer to tools/call.
func (s *echoServer) call(r *echoRequest) {
	var text []byte
	switch r.Params.Name {
	case "blob":
		text = s.blob(r.Params.Arguments.Bytes)
	case "pid":
		text = strconv.AppendQuote(nil, strconv.Itoa(os.Getpid()))
	case "crash":
		os.Exit(3)
	default:
		text = strconv.AppendQuote(nil, r.Params.Arguments.Text)
	}
	s.due = append(append(append(s.due, `,"result":`...), textResult(nil, text)...), "}\n"...)
	if r.Params.Name == "announce" {
		s.due = append(s.due, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n"...)
	}
}

// blob returns a quoted text of n bytes, made once.
func (s *echoServer) blob(n int) []byte {
	n = max(0, min(n, maxBlob))
	if s.blobs[n] == nil {
		s.blobs[n] = strconv.AppendQuote(nil, BlobText(n))
	}
	return s.blobs[n]
}

// textResult appends the result that has one text, given as JSON. It is how
// the server writes it and what a client has to receive, byte for byte.
func textResult(dst, quoted []byte) []byte {
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	return append(append(dst, quoted...), `}]}`...)
}

// BlobText is n bytes that nobody else would send.
func BlobText(n int) string {
	const pattern = "Sphinx of black quartz, judge my vow! "
	return strings.Repeat(pattern, n/len(pattern)+1)[:n]
}
