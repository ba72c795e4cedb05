% VOXPIPE  Call the programs of voxpipe from Octave or MATLAB: arrays in, an array out.
%
%   result = voxpipe(command, input, ...)
%   [result, meta] = voxpipe(command, input, ...)
%
% COMMAND is a line of bash, as in a terminal: a program with its options, or several joined by |. {1}, {2}, ...
% stand for the inputs; a single input that is not named is standard input. INPUT is an array (rows, columns,
% planes, ...), or a cell {array, meta}. RESULT is an array if the last program writes a stack, else the text that
% it prints. META is the metadata of the result, the lines "key = value" of voxpipe-stack(5).
%
%   smooth = voxpipe('img-gauss --sigma 2', single(volume));
%   difference = voxpipe('img-math "a - b" {1} {2}', a, b);
%   [volume, meta] = voxpipe(['ct-normalize -g scan.geom --flat {2} {1} | ct-filter | ' ...
%                             'ct-backproject --volume 256x256x64'], counts, flat);
%   voxpipe('img-gauss --sigma 1 -o smooth.tif', {volume, meta});
%
% The axes of an array with more than three dimensions are named in its metadata, columns first, then rows:
% {array, 'axes = x y channel time'}. The programs are looked for in $VOXPIPE_BIN and in PATH. Arrays travel in files
% in tempdir, which are deleted at the end. An error has the identifier voxpipe:run and the messages of the programs.

% SPDX-License-Identifier: BSD-3-Clause
function [result, meta] = voxpipe(command, varargin)
    folder = tempname();
    mkdir(folder);
    cleaner = onCleanup(@() remove(folder));
    out = fullfile(folder, 'out');
    messages = fullfile(folder, 'messages');
    source = '/dev/null';
    for i = 1:numel(varargin)
        file = fullfile(folder, sprintf('%d.tif', i));
        write_stack(file, varargin{i});
        mark = sprintf('{%d}', i);
        if ~isempty(strfind(command, mark)) %#ok<STREMP>
            command = strrep(command, mark, quoted(file));
        elseif numel(varargin) == 1
            source = file;
        else
            error('voxpipe:usage', 'voxpipe: %s is not in the command', mark);
        end
    end
    script = fullfile(folder, 'script');
    f = fopen(script, 'w');
    fprintf(f, 'PATH=${VOXPIPE_BIN:+$VOXPIPE_BIN:}$PATH\nset -o pipefail\n%s\n', command);
    fclose(f);
    status = system(sprintf('bash %s < %s > %s 2> %s', quoted(script), quoted(source), quoted(out), quoted(messages)));
    said = strtrim(fileread(messages));
    if status ~= 0
        if isempty(said)
            said = sprintf('voxpipe: exit status %d\n%s', status, fileread(out)); % img-cmp prints its report
        end
        error('voxpipe:run', '%s', said);
    elseif ~isempty(said)
        warning('voxpipe:run', '%s', said);
    end
    [result, meta] = read_stack(out);
end

function remove(folder)
    files = dir(folder);
    for i = 1:numel(files)
        if ~files(i).isdir
            delete(fullfile(folder, files(i).name));
        end
    end
    rmdir(folder);
end

function text = quoted(file)
    text = ['''' strrep(file, '''', '''\''''') ''''];
end

function types = sample_types()
    % class, bits, SampleFormat
    types = {'uint8', 8, 1; 'uint16', 16, 1; 'uint32', 32, 1; 'uint64', 64, 1; 'int8', 8, 2; 'int16', 16, 2; ...
             'int32', 32, 2; 'int64', 64, 2; 'single', 32, 3; 'double', 64, 3};
end

% Writes an array, or {array, meta}, as a BigTIFF in the order of voxpipe-stack(5).
function write_stack(file, input)
    meta = '';
    if iscell(input)
        meta = char(input{2});
        input = input{1};
    end
    if islogical(input)
        input = uint8(input);
    end
    types = sample_types();
    type = find(strcmp(class(input), types(:, 1)));
    if isempty(type) || ~isreal(input) || isempty(input)
        error('voxpipe:usage', 'voxpipe: expected an array of real numbers, not empty');
    end
    shape = size(input);
    axes = regexp(meta, '^axes = (.*)$', 'tokens', 'once', 'lineanchors', 'dotexceptnewline');
    if isempty(axes) && numel(shape) > 3
        error('voxpipe:usage', 'voxpipe: an array of %d axes: expected {array, ''axes = x y channel time''}', ...
              numel(shape));
    elseif isempty(axes)
        names = {'x y', 'x y z'};
        meta = [meta sprintf('\naxes = %s', names{numel(shape) - 1})];
    else
        axes = strsplit(strtrim(axes{1}));
        shape(end + 1:numel(axes)) = 1; % Octave drops trailing axes of length 1
        if numel(axes) ~= numel(shape)
            error('voxpipe:usage', 'voxpipe: an array of %d axes with %d names', numel(shape), numel(axes));
        elseif numel(axes) > 3
            meta = [meta sprintf('\nsizes =%s', sprintf(' %d', shape(3:end)))];
        end
    end
    pages = prod(shape(3:end));
    bytes = shape(1) * shape(2) * types{type, 2} / 8;
    aligned = @(n) ceil(n / 16) * 16;
    f = fopen(file, 'w', 'l');
    closer = onCleanup(@() fclose(f));
    fwrite(f, 'II', 'uint8');
    fwrite(f, [43 8 0], 'uint16');
    at = 16;
    fwrite(f, at, 'uint64');
    for page = 0:pages - 1
        % tag, type, count, value
        tags = [256 4 1 shape(2); 257 4 1 shape(1); 258 3 1 types{type, 2}; 259 3 1 1; 262 3 1 1; 273 16 1 0; ...
                277 3 1 1; 278 4 1 shape(1); 279 16 1 bytes; 339 3 1 types{type, 3}];
        text = uint8([]);
        if page == 0
            text = uint8([sprintf('voxpipe = 1\n') strtrim(meta) sprintf('\n') char(0)]);
            tags = [tags(1:5, :); 270 2 numel(text) at + 8 + 20 * 11 + 8; tags(6:end, :)];
        end
        count = size(tags, 1);
        samples = aligned(at + 8 + 20 * count + 8 + numel(text));
        tags(tags(:, 1) == 273, 4) = samples;
        following = aligned(samples + bytes);
        fwrite(f, count, 'uint64');
        for i = 1:count
            fwrite(f, tags(i, 1:2), 'uint16');
            fwrite(f, tags(i, 3:4), 'uint64');
        end
        fwrite(f, following * (page < pages - 1), 'uint64');
        fwrite(f, text, 'uint8');
        fwrite(f, zeros(1, samples - ftell(f)), 'uint8');
        fwrite(f, input(:, :, page + 1).', types{type, 1});
        if page < pages - 1
            fwrite(f, zeros(1, following - ftell(f)), 'uint8');
        end
        at = following;
    end
end

% Reads what the last program wrote: a stack in the order of voxpipe-stack(5), or text.
function [result, meta] = read_stack(file)
    f = fopen(file, 'r', 'l');
    closer = onCleanup(@() fclose(f));
    meta = '';
    head = fread(f, [1 4], '*uint8');
    big = isequal(head, [73 73 43 0]);
    if ~big && ~isequal(head, [73 73 42 0])
        frewind(f);
        result = fread(f, [1 Inf], '*char');
        return
    end
    types = sample_types();
    offset = 'uint32';
    if big
        offset = 'uint64';
        fseek(f, 8, 'bof');
    end
    at = fread(f, 1, offset);
    result = {};
    while at
        fseek(f, at, 'bof');
        count = fread(f, 1, 'uint16');
        start = at + 2 + 6 * big;
        tags = zeros(1, 339);
        for i = 0:count - 1
            fseek(f, start + i * (12 + 8 * big), 'bof');
            tag = fread(f, [1 2], 'uint16');
            number = fread(f, 1, offset);
            if tag(2) == 3
                tags(tag(1)) = fread(f, 1, 'uint16');
            elseif any(tag(1) == [256 257 270 273])
                tags(tag(1)) = fread(f, 1, offset);
                if tag(1) == 270
                    text_bytes = number;
                end
            end
        end
        fseek(f, start + count * (12 + 8 * big), 'bof');
        at = fread(f, 1, offset);
        if tags(270)
            fseek(f, tags(270), 'bof');
            meta = fread(f, [1 text_bytes - 1], '*char');
        end
        type = types([types{:, 2}] == tags(258) & [types{:, 3}] == tags(339), 1);
        fseek(f, tags(273), 'bof');
        result{end + 1} = fread(f, [tags(256) tags(257)], ['*' type{1}]).'; %#ok<AGROW>
    end
    result = cat(3, result{:});
    meta = regexprep(meta, '^.*?# voxpipe = 1\n', '');
    meta = regexprep(meta, '^# ', '', 'lineanchors');
    sizes = regexp(meta, '^sizes = ([0-9 ]*)$', 'tokens', 'once', 'lineanchors');
    if ~isempty(sizes)
        result = reshape(result, [size(result, 1) size(result, 2) sscanf(sizes{1}, '%d').']);
        meta = regexprep(meta, '^sizes = [0-9 ]*\n', '', 'lineanchors');
    end
end
