import type { ActorNames } from '../../actors/inspection/inspector-actor-names.ts'
import {
  toInspectorFramesOfCommand,
  type InspectorShownActor,
  type InspectorStepFrames,
} from '../../actors/inspection/inspector-frames.ts'
import type { RecordedCommand } from '../../actors/inspection/command-recorder.ts'
import { encodeWebSocketTextFrame } from '../../realtime/websocket-text-frame.ts'

/** The frames of a command, built and encoded once for all watchers of a node. */

const encodedSteps = new WeakMap<InspectorStepFrames, Buffer>()
/** Both frames of a step as the connection carries them. */
export function encodeActorStepFrames(frames: InspectorStepFrames): Buffer {
  const known = encodedSteps.get(frames)
  if (known !== undefined) return known
  const encoded = Buffer.concat(frames.frames().map(encodeWebSocketTextFrame))
  encodedSteps.set(frames, encoded)
  return encoded
}

/** Builds the frames of a command once for all watchers, and knows names that contexts do not have. */
export type SharedInspectorStepFrames = ((
  command: RecordedCommand,
) => readonly InspectorStepFrames[]) & {
  remember(actors: readonly InspectorShownActor[]): void
}

export function createSharedInspectorStepFrames(
  names: Pick<ActorNames, 'nameOf' | 'remember'>,
): SharedInspectorStepFrames {
  let last: { command: RecordedCommand; frames: readonly InspectorStepFrames[] } | null = null
  let seq = 0
  const framesOf = (command: RecordedCommand): readonly InspectorStepFrames[] => {
    if (last?.command === command) return last.frames
    const frames = toInspectorFramesOfCommand(command, names.nameOf, seq)
    seq += frames.length
    last = { command, frames }
    return frames
  }
  return Object.assign(framesOf, {
    remember: (...found: Parameters<ActorNames['remember']>) => names.remember(...found),
  })
}
