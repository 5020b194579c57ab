import type { AnyStateMachine } from 'xstate'

/**
 * The config of a machine as JSON, for editors and other programs. It has no functions: the initial
 * context is missing, and a guard or action without `params` receives the event.
 */
export const machineConfigJson = ({ config }: AnyStateMachine): string => JSON.stringify(config)
