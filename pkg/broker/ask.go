package broker

import (
	"crypto/rand"
	"strconv"
	"strings"

	"harness/pkg/jsonrpc"
)

var _ jsonrpc.Answerer = (*session)(nil)

// questions are what upstreams have asked of one session and it has not
// answered (MCP-5). They are guarded by the session's mu.
type questions struct {
	// prefix makes the ids of this session nobody else's: an answer to a daemon
	// that is gone must not be taken for one to its successor.
	prefix string
	asked  int
	open   map[string]*jsonrpc.Question // by the raw id that the agent was given
}

func newQuestions() questions {
	return questions{prefix: strings.ToLower(rand.Text()[:8]) + "-", open: map[string]*jsonrpc.Question{}}
}

// Ask implements [jsonrpc.Answerer].
func (s *session) Ask(q *jsonrpc.Question, line []byte, m *jsonrpc.Message) (refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// sampling/createMessage needs the capability sampling, and so on.
	capability, _, _ := strings.Cut(q.Method, "/")
	switch {
	case !s.initialized || s.over:
		return "the session that it works for is not there yet, or not any more"
	case len(s.capabilities[capability]) == 0:
		return "the session that it works for cannot do " + capability
	}
	s.questions.asked++
	id := strconv.AppendQuote(nil, s.questions.prefix+strconv.Itoa(s.questions.asked))
	s.questions.open[string(id)] = q
	s.edge.Commit(jsonrpc.Splice(s.edge.Buffer(), line, jsonrpc.Edit{At: m.ID, With: id}, jsonrpc.Edit{At: m.ProgressToken, With: id}), nil)
	s.flushLocked()
	return ""
}

// Withdraw implements [jsonrpc.Answerer].
func (s *session) Withdraw(q *jsonrpc.Question, notice []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, open := range s.questions.open {
		if open == q {
			delete(s.questions.open, id)
			s.edge.Commit(jsonrpc.AppendCancelled(s.edge.Buffer(), notice, []byte(id)), nil)
			s.flushLocked()
			return
		}
	}
}

// answer passes the agent's answer to a question on. One to no question is
// dropped: it was withdrawn, or asked by a daemon that is gone.
func (s *session) answer(line []byte, m *jsonrpc.Message) {
	s.mu.Lock()
	q := s.questions.open[string(m.ID.In(line))]
	delete(s.questions.open, string(m.ID.In(line)))
	s.mu.Unlock()
	if q != nil {
		q.Asker.Reply(q, line, m)
	}
}

// advance passes on how far the agent has come with a question.
func (s *session) advance(line []byte, m *jsonrpc.Message) {
	s.mu.Lock()
	q := s.questions.open[string(m.ParamsToken.In(line))]
	s.mu.Unlock()
	if q != nil {
		q.Asker.Advance(q, line, m)
	}
}

// abandon tells whoever asked a session that is over.
func (s *session) abandon() {
	s.mu.Lock()
	left := s.questions.open
	s.questions.open, s.over = nil, true
	s.mu.Unlock()
	for _, q := range left {
		q.Asker.Gone(q)
	}
}
