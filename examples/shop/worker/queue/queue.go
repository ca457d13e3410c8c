// Package queue keeps events on disk until somebody has taken them: at least once, in order for each subscriber.
package queue

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Event is one message for one subscriber.
type Event struct {
	ID     string
	URL    string
	Body   []byte
	Secret []byte
	Tries  int
}

// Queue is a folder with one file for each waiting event.
type Queue struct {
	dir string
}

// Open makes the folder if it is not there.
func Open(dir string) (*Queue, error) {
	if dir == "" {
		return nil, errors.New("no queue folder given")
	}
	return &Queue{dir: dir}, os.MkdirAll(filepath.Join(dir, "dead"), 0o700)
}

// Run hands events to deliver until ctx ends. What fails ten times goes to the dead letters.
func (q *Queue) Run(ctx context.Context, deliver func(context.Context, Event) error) error {
	for {
		event, path, err := q.next()
		if err != nil {
			return err
		}
		if path == "" {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
				continue
			}
		}
		if err := deliver(ctx, event); err == nil {
			os.Remove(path)
		} else if event.Tries++; event.Tries >= 10 {
			os.Rename(path, filepath.Join(q.dir, "dead", event.ID))
		}
	}
}

// Close flushes the folder's entries to disk.
func (q *Queue) Close() error {
	folder, err := os.Open(q.dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// next is the oldest waiting event; the path is empty when there is none.
func (q *Queue) next() (Event, string, error) {
	entries, err := os.ReadDir(q.dir)
	if err != nil {
		return Event{}, "", err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		path := filepath.Join(q.dir, entry.Name())
		event, err := decode(path)
		return event, path, err
	}
	return Event{}, "", nil
}
