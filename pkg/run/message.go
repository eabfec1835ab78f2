package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"harness/pkg/evidence"
)

// The types of messages.
const (
	Progress = "progress"
	Steer    = "steer"
	Ack      = "ack"
)

// The dispositions of a message.
const (
	Pending      = "pending"
	Acknowledged = "acknowledged" // also one that asks for nothing
)

// MaxBody bounds the body of a message, in bytes.
const MaxBody = 32 << 10

// maxMessages bounds the messages of one run, and what they hold together.
const (
	maxMessages   = 10000
	maxMessageLog = 8 << 20
)

// Note is a message as it is sent.
type Note struct {
	ID            string
	Type          string
	Body          string
	CorrelationID string
	Actor         Actor
}

// line is a message as it is stored, a line of messages.jsonl. The body is in it
// and shown by nobody: it is for the process, which has the path (EVI-6).
type line struct {
	ID            string    `json:"id"`
	Type          string    `json:"type"`
	At            time.Time `json:"at"`
	CorrelationID string    `json:"correlation_id"`
	Actor         Actor     `json:"actor"`
	Body          string    `json:"body"`
}

// messageBody is the receipt of a message.
type messageBody struct {
	ID            string `json:"id"`
	Type          string `json:"type"`
	CorrelationID string `json:"correlation_id"`
	Actor         Actor  `json:"actor"`
	Bytes         int    `json:"bytes"`
	SHA256        string `json:"sha256"`      // of the body
	LineSHA256    string `json:"line_sha256"` // of the line of messages.jsonl
}

// Message is one message as it is shown: never its body (RES-3).
type Message struct {
	ID             string    `json:"id"`
	Run            string    `json:"run"`
	Type           string    `json:"type"`
	Principal      string    `json:"principal"` // "local"
	At             time.Time `json:"at"`
	CorrelationID  string    `json:"correlation_id"`
	Disposition    string    `json:"disposition"`
	Bytes          int       `json:"bytes"`
	SHA256         string    `json:"sha256"`
	RedactionState string    `json:"redaction_state"` // "body_omitted"
}

// receiptsOf goes through the receipts of messages in a chain. Where one cannot be
// read it ends, and err says why.
func receiptsOf(records []evidence.Record, err *error) iter.Seq2[evidence.Record, messageBody] {
	return func(yield func(evidence.Record, messageBody) bool) {
		for _, r := range records {
			if r.Type != typeMessage {
				continue
			}
			var m messageBody
			if why := json.Unmarshal(r.Body, &m); why != nil {
				*err = fmt.Errorf("read a message's receipt: %w", why)
				return
			}
			if !yield(r, m) {
				return
			}
		}
	}
}

// messagesOf lists the messages that a chain has receipts of.
func messagesOf(run string, records []evidence.Record) (list []Message, err error) {
	list = []Message{}
	for r, m := range receiptsOf(records, &err) {
		d := Acknowledged
		if m.Type == Steer {
			d = Pending
		}
		list = append(list, Message{m.ID, run, m.Type, "local", r.At, m.CorrelationID, d, m.Bytes, m.SHA256, "body_omitted"})
	}
	if err != nil {
		return nil, err
	}
	for _, ack := range list {
		if ack.Type != Ack {
			continue
		}
		for i := range list {
			if list[i].Type == Steer && list[i].CorrelationID == ack.CorrelationID {
				list[i].Disposition = Acknowledged
			}
		}
	}
	return list, nil
}

// splitMessages takes a message log apart: one line for each receipt, and what
// follows them, which a crash kept from having one.
func splitMessages(data []byte, records []evidence.Record) (torn []byte, err error) {
	for r, m := range receiptsOf(records, &err) {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 || evidence.Digest(data[:end]) != m.LineSHA256 {
			return nil, &evidence.Fault{Entry: messagesFile, Message: fmt.Sprintf("message %s is not as its receipt %d says", m.ID, r.N)}
		}
		var l line
		if err := evidence.DecodeCanonical(data[:end], &l); err != nil || l.ID != m.ID || l.Type != m.Type || l.CorrelationID != m.CorrelationID || evidence.Digest([]byte(l.Body)) != m.SHA256 {
			return nil, &evidence.Fault{Entry: messagesFile, Message: fmt.Sprintf("message %s is not as its receipt %d says", m.ID, r.N)}
		}
		data = data[end:]
	}
	return data, err
}

// ErrOver is what is returned for a message to a run that is over, ErrNoSteer
// for an acknowledgement of what was never asked.
var (
	ErrOver    = errors.New("the run is over")
	ErrNoSteer = errors.New("no message of that correlation id waits for an acknowledgement")
	ErrFull    = errors.New("the run has as many messages as are kept")
)
