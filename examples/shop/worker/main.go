// Command worker delivers order events to other systems.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"shop/worker/queue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	q, err := queue.Open(os.Getenv("QUEUE_DIR"))
	if err != nil {
		slog.Error("cannot open queue", "error", err)
		os.Exit(1)
	}
	defer q.Close()

	// Drains what is in flight before it returns.
	if err := q.Run(ctx, deliver); err != nil {
		slog.Error("worker stopped", "error", err)
		os.Exit(1)
	}
}
