/**
 * Runs inside CPython: imports common modules, waits for a job, runs it as `__main__`, and stores the value
 * of the last expression, or of a variable `result`, as JSON.
 */
export const PYTHON_RUNNER_SOURCE = String.raw`
import sys, os, json, ast, linecache, traceback, types
import math, re, random, datetime, collections, itertools, functools, statistics
os.environ.clear()
os.environ['HOME'] = '/tmp'
os.chdir('/tmp')
sys.argv = ['code.py']
sys.path[:] = ['/tmp', '/lib/python313.zip']
__builtins__.exit = __builtins__.quit = sys.exit
sys.stdout.reconfigure(line_buffering=True)
sys.stderr.reconfigure(line_buffering=True)
sys.stdin.readline()

def __run():
    with open('/tmp/job.json', encoding='utf-8') as file:
        code = json.load(file)['code']
    os.remove('/tmp/job.json')
    name, most = 'code.py', 131072

    def plain(value, depth=0):
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int and abs(value) < 2 ** 53:
            return value
        if kind is float and math.isfinite(value):
            return value
        if depth < 16:
            if kind is list or kind is tuple:
                return [plain(one, depth + 1) for one in value]
            if kind is dict and all(type(key) is str for key in value):
                return {key: plain(one, depth + 1) for key, one in value.items()}
        return repr(value)[:most]

    def leave(result, error):
        with open('/tmp/result.json', 'w', encoding='utf-8', errors='replace') as file:
            json.dump({'result': result, 'error': error}, file)

    def told(error):
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != name:
            frames = frames.tb_next
        lines = traceback.format_exception(type(error), error, frames)
        return ''.join(lines).strip()[-16384:]

    main = types.ModuleType('__main__')
    main.__file__ = name
    sys.modules['__main__'] = main
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        tree = ast.parse(code, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        exec(compile(tree, name, 'exec'), main.__dict__)
        value = None
        if last is not None:
            value = eval(compile(last, name, 'eval'), main.__dict__)
        if value is None:
            value = main.__dict__.get('result')
        leave(None if value is None else json.dumps(plain(value)), None)
    except SystemExit as error:
        code = error.code
        leave(None, None if code is None or code == 0 else 'SystemExit: ' + str(code)[:1000])
    except BaseException as error:
        try:
            message = told(error)
        except BaseException:
            message = type(error).__name__
        leave(None, message)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass

__run()
`
