import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/**
 * What every request passes, in one hook of each kind: Fastify makes a closure for each hook of each request,
 * and a step that has nothing to wait for needs no promise.
 */

/** Looks at a request. Throws, or rejects, to refuse it; steps behind an answer that is sent are left out. */
export type RequestHook = (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>

/** Looks at an answer that has been sent. */
export type ResponseHook = (request: FastifyRequest, reply: FastifyReply) => void

export interface FastifyRequestLifecycleSteps {
  /** Run as soon as the route is known. */
  readonly received: readonly RequestHook[]
  /** Run once the body is read. */
  readonly parsed: readonly RequestHook[]
  /** Run once the schema of the route allows the request. */
  readonly validated: readonly RequestHook[]
  /** May grow until the server is ready. */
  readonly answered: readonly ResponseHook[]
}

type Done = (error?: FastifyError) => void

export function installRequestHooks(
  app: FastifyInstance,
  { received, parsed, validated, answered }: FastifyRequestLifecycleSteps,
): void {
  app.addHook('onRequest', (request, reply, done) => runSteps(received, 0, request, reply, done))
  app.addHook('preValidation', (request, reply, done) => runSteps(parsed, 0, request, reply, done))
  app.addHook('preHandler', (request, reply, done) => runSteps(validated, 0, request, reply, done))
  app.addHook('onResponse', (request, reply, done) => {
    for (const step of answered) step(request, reply)
    done()
  })
}

function runSteps(
  steps: readonly RequestHook[],
  from: number,
  request: FastifyRequest,
  reply: FastifyReply,
  done: Done,
): void {
  try {
    for (let at = from; at < steps.length; at++) {
      const work = steps[at]?.(request, reply)
      if (work !== undefined) return void resumeAfter(work, steps, at + 1, request, reply, done)
      if (reply.sent) return
    }
  } catch (error) {
    return done(error as FastifyError)
  }
  // Outside: the rest of the request runs in this call.
  done()
}

async function resumeAfter(
  work: Promise<void>,
  steps: readonly RequestHook[],
  next: number,
  request: FastifyRequest,
  reply: FastifyReply,
  done: Done,
): Promise<void> {
  try {
    await work
  } catch (error) {
    return done(error as FastifyError)
  }
  if (!reply.sent) runSteps(steps, next, request, reply, done)
}
