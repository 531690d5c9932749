// SPDX-License-Identifier: MIT

// A receiver of profiles, made of what Pyroscope publishes of itself: the service that its clients push
// to, as its API module has it, and pprof's own reader. It prints a line of JSON for each profile. It
// shows that `mallow serve --pyroscope` speaks the protocol, where no Pyroscope can be had.
//
//	receiver ADDRESS:PORT
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	push "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

type pusher struct{}

type told struct {
	Labels    map[string]string `json:"labels"`
	Types     []string          `json:"types"`
	Period    string            `json:"period"`
	Functions map[string]int64  `json:"functions"`
}

func (pusher) Push(_ context.Context, request *connect.Request[push.PushRequest]) (
	*connect.Response[push.PushResponse], error) {
	for _, series := range request.Msg.Series {
		labels := map[string]string{}
		for _, label := range series.Labels {
			labels[label.Name] = label.Value
		}
		for _, sample := range series.Samples {
			read, err := profile.Parse(bytes.NewReader(sample.RawProfile))
			if err != nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, err)
			}
			json.NewEncoder(os.Stdout).Encode(describe(labels, read))
		}
	}
	return connect.NewResponse(&push.PushResponse{}), nil
}

func describe(labels map[string]string, read *profile.Profile) told {
	found := told{Labels: labels, Functions: map[string]int64{}}
	for _, kind := range read.SampleType {
		found.Types = append(found.Types, kind.Type+":"+kind.Unit)
	}
	if read.PeriodType != nil {
		found.Period = read.PeriodType.Type + ":" + read.PeriodType.Unit
	}
	// The last value is inuse_space, and the first line of the first place has called malloc.
	for _, sample := range read.Sample {
		if len(sample.Location) > 0 && len(sample.Location[0].Line) > 0 {
			name := sample.Location[0].Line[0].Function.Name
			found.Functions[name] += sample.Value[len(sample.Value)-1]
		}
	}
	return found
}

func main() {
	path, handler := pushv1connect.NewPusherServiceHandler(pusher{})
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	log.Fatal(http.ListenAndServe(os.Args[1], mux))
}
