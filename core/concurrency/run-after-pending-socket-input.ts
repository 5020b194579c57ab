/**
 * Runs `work` once Node has read what has arrived on its sockets. A timer that fires late, after the event
 * loop was held up, runs before that: an answer that came in time would count as missing.
 */
export const runAfterPendingSocketInput = (work: () => void): void => void setImmediate(work)
