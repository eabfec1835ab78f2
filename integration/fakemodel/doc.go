// Package fakemodel stands in for the models that agent CLIs talk to, so that
// real agents can be driven in tests, without a network: by the APIs of
// Anthropic (messages), OpenAI (responses, and chat completions) and Google
// (generateContent).
//
// A [Model] is an HTTP handler. It has a plan, the tool calls to make one after
// the other; it records which tools it was offered at each turn and what came
// back of each call. [Clients] says how each CLI is started so that it asks a
// model of this package. It judges nothing, and imports nothing of what it is
// there to test.
//
// # Decisions
//
// A call names its tool by how the name ends: each CLI puts something else
// before it, and some change characters.
//
// A planned tool that is not offered ends the plan: the model says so instead
// of calling, and the test sees it in [Model.Err]. Where an agent is to hear of
// a tool while it works, the model waits by calling another one, a limited
// number of times: an agent looks for changes between two calls, and how many it
// takes is its own affair. Only a plan that says so calls what is not on offer.
//
// A request without tools is no turn of the plan. CLIs ask for titles and
// summaries on the side, which get a word of text.
package fakemodel
