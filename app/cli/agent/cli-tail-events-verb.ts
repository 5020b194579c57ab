import { CliFailure, CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import {
  shouldPrintJson,
  printJson,
  printLine,
  toTerminalSafeJsonText,
  toTerminalSafeText,
} from '../cli-output.ts'
import { parseListOption, parseNumberOption } from './cli-verb-with-subcommands.ts'
import { loadStationUrlAndApiKey } from './cli-station-url-and-key.ts'
import { followEvents, type FollowedStationEventOrGap } from './follow-events-over-websocket.ts'

/** `gas tail`. */
export const tailCliVerb: CliVerb = {
  forms: ['[channel …] [--since ID] [--kinds A,B] [--count N]'],
  about:
    'Prints events as they come: those addressed to the agent, and the signals of the channels; `pulses` are the pulses of all. After a broken connection it goes on where it was, without losses and doubles. Ctrl-C ends it.',
  options: {
    since: { value: 'ID', description: 'first the signals of the channels after this id' },
    kinds: { value: 'A,B', description: 'these kinds only: signal, message, task, backpack, …' },
    count: { value: 'N', description: 'ends after so many events' },
    ...CLI_JSON_OPTION,
  },
  examples: ['gas tail', 'gas tail defi:eth --since 1204', 'gas tail --kinds task,alert --json'],
  async run({ words, text, has }) {
    const { url, apiKey } = loadStationUrlAndApiKey()
    if (apiKey === null)
      throw new CliFailure('set GAS_API_KEY, or run gas onboard <name> --save', 3)
    const kinds = new Set(parseListOption(text('kinds') ?? ''))
    const count =
      text('count') === null ? Infinity : parseNumberOption(text('count') ?? '', '--count')
    if (text('kinds') !== null && kinds.size === 0) throw new CliUsageError('--kinds names none')
    if (text('since') !== null && words.length === 0)
      throw new CliUsageError('--since is an id of signals: name their channels')
    if (count === 0 || words.some((channel) => /[\s,]/.test(channel))) throw new CliUsageError('')
    const print = shouldPrintJson(has('json')) ? printJson : printEvent
    const settings = { url, apiKey, channels: words, since: text('since') }
    let printed = 0
    for await (const frame of followEvents(settings)) {
      if (frame.type === 'gap')
        console.error(`gap: ${frame.channel} from ${frame.from} to ${frame.to} is not replayed`)
      if (frame.type === 'event' && kinds.size > 0 && !kinds.has(frame.kind ?? '')) continue
      if (frame.type === 'event' || has('json')) print(frame)
      if (frame.type === 'event') printed += 1
      if (printed >= count) break
    }
    return 0
  },
}

function printEvent({ time, channel, kind, data }: FollowedStationEventOrGap): void {
  const own = channel?.startsWith('agent:') === true ? 'me' : channel
  const type = data?.['type']
  const shownType = typeof type === 'string' ? type : undefined
  const line = [time, own, kind, shownType, toTerminalSafeJsonText(data?.['payload'] ?? data ?? {})]
  printLine(toTerminalSafeText(line.filter((part) => part !== undefined).join('  ')))
}
