#!/usr/bin/perl
# Writes the man pages as Markdown, and an index of them: markdown.pl MAN_DIR OUT_DIR
# Converts the requests of man(7) and tbl(1) that the pages of this tree use; anything else is an error. The output
# depends on the pages alone, on no installed formatter.
use strict;
use warnings;
use utf8;
use open qw(:std :encoding(UTF-8));

my ($from, $to) = @ARGV;
die "usage: markdown.pl MAN_DIR OUT_DIR\n" unless defined $to;
my %page = map { m{([^/]+)$}; ($1 => $_) } glob "$from/*.[157]";
my %summary;

sub fail {
    print STDERR @_;
    exit 1;
}

# Replaces roff's escapes; fonts become \1 (bold), \2 (italic), \0 (roman) marks.
sub unescape {
    my ($s) = @_;
    my %char = ('-' => '-', 'e' => "\\", '(aq' => "'", '(dq' => '"', '(ga' => '`', '(ha' => '^', '(ti' => '~',
                '(bu' => '•', '~' => ' ', '&' => '', 'fB' => "\1", 'fI' => "\2", 'fR' => "\0", 'fP' => "\0");
    $s =~ s{\\(\[u([0-9A-F]{4,6})\]|f[BIRP]|\(..|[-e~&]|.)}
           {defined $2 ? chr hex $2 : exists $char{$1} ? $char{$1} : fail "$ARGV:$.: unknown escape \\$1\n"}ge;
    return $s;
}

# Escapes what Markdown would take for markup, and turns marks of fonts into ** and *.
sub markup {
    my ($s) = @_;
    $s =~ s/([\\`*_<>\[\]|#])/\\$1/g;
    $s =~ s/\A([-+]|\d+[.)])(?= )/\\$1/;
    my ($out, $font) = ('', '');
    for my $part (split /([\0\1\2])/, $s) {
        if ($part =~ /\A[\0\1\2]\z/) {
            $font = $part eq "\1" ? '**' : $part eq "\2" ? '*' : '';
        } elsif ($part =~ /\A(\s*)(.*?)(\s*)\z/s && length $2) {
            $out .= "$1$font$2$font$3"; # no blanks within the stars
        } else {
            $out .= $part;
        }
    }
    $out =~ s/\*\*([\w-]+)\*\*\(([157])\)/exists $page{"$1.$2"} ? "[$1($2)]($1.$2.md)" : "**$1**($2)"/ge;
    $out =~ s/(?<![\[\w*-])((?:ct|img|voxpipe)[\w-]*)\(([157])\)/exists $page{"$1.$2"} ? "[$1($2)]($1.$2.md)" : "$1($2)"/ge;
    return $out;
}

# Splits the arguments of a request.
sub arguments {
    my ($s) = @_;
    my @arg;
    push @arg, defined $1 ? $1 : $2 while $s =~ /\G\s*(?:"((?:[^"]|"")*)"|(\S+))/g;
    return @arg;
}

# Returns the text of a font request, .B or .BR and the like.
sub fonts {
    my ($name, $rest) = @_;
    my %mark = (B => "\1", I => "\2", R => "\0");
    my @arg = map { unescape($_) } arguments($rest);
    return $mark{$name} . join(' ', @arg) . "\0" if length $name == 1;
    my @f = split //, $name;
    my $i = 0;
    return join('', map { $mark{$f[$i++ % 2]} . $_ } @arg) . "\0";
}

sub convert {
    my ($file, $name) = @_;
    my @out;                 # lines
    my @indent = ('');       # of each .RS, the last one the current
    my $item = '';           # indentation of the item, below that of .RS
    my ($literal, $table, $tag, $next, @text, @row, $cell) = (0);
    my $head = '';

    my $here = sub { $indent[-1] . $item };
    my $flush = sub {
        return unless @text;
        my $s = markup(join ' ', @text);
        $s =~ s/ +/ /g;
        push @out, $here->() . $s, '';
        $summary{$name} = $1 if $head eq 'NAME' && $s =~ / - (.*)/;
        @text = ();
    };
    local @ARGV = ($file);
    while (my $line = <>) {
        chomp $line;
        next if $line =~ /^['.]\\"/; # a comment
        if ($table) {
            if ($line eq '.TE') {
                $table = 0;
                my $columns = 0;
                for (@row) { $columns = @$_ if @$_ > $columns }
                push @out, $here->() . '|' . ' |' x $columns, $here->() . '|' . '---|' x $columns;
                push @out, $here->() . '| ' . join(' | ', map { markup($_) } @$_) . ' |' for @row;
                push @out, '';
                @row = ();
            } elsif ($table == 1) {
                $table = 2 if $line =~ /\.$/; # the format
            } elsif (defined $cell) {
                if ($line =~ s/^T\}//) {
                    $row[-1][-1] = $cell;
                    undef $cell;
                    push @{$row[-1]}, map { unescape($_) } split /\t/, $1 if $line =~ /^\t(.*)/;
                } else {
                    $cell .= ($cell eq '' ? '' : ' ') . ($line =~ /^\.([BIR]{1,2}) (.*)/ ? fonts($1, $2) : unescape($line));
                }
            } elsif ($line =~ /^\.([BIR]{1,2}) (.*)/) {
                push @row, [fonts($1, $2)];
            } else {
                push @row, [map { unescape($_) } split /\t/, $line];
                $cell = '' if $row[-1][-1] eq 'T{';
            }
            next;
        }
        if ($literal) {
            if ($line eq '.fi') {
                $literal = 0;
                push @out, $here->() . '```', '';
            } elsif ($line =~ /^\.(?:ft\b|\\")/) {
                next;
            } else {
                my $s = $line =~ /^\.([BIR]{1,2}) (.*)/ ? fonts($1, $2) : unescape($line);
                $s =~ tr/\0\1\2//d;
                push @out, $s eq '' ? '' : $here->() . $s;
            }
            next;
        }
        if ($next && $line !~ /^\.(?:\\"|TP|TQ)/) { # the term of a .TP
            push @text, $line =~ /^\.([BIR]{1,2}) (.*)/ ? fonts($1, $2) : unescape($line);
            my $s = markup(join ' ', @text);
            @text = ();
            if ($next == 2) { # .TQ: another term of the same item
                pop @out while @out && $out[-1] eq '';
                $out[-1] .= '\\';
                push @out, $indent[-1] . "  $s", '';
            } else {
                push @out, $indent[-1] . "- $s", '';
            }
            ($item, $next) = ('  ', 0);
            next;
        }
        if ($line !~ /^\./) {
            push @text, unescape($line);
            next;
        }
        my ($request, $rest) = $line =~ /^\.(\S+)\s*(.*)/ or fail "$file:$.: $line\n";
        if ($request eq '\\"' || $request eq 'ft') {
        } elsif ($request =~ /^[BIR]{1,2}$/) {
            push @text, fonts($request, $rest);
        } elsif ($request eq 'br') {
            $flush->();
        } elsif ($request eq 'TH') {
            push @out, "# $name", '';
        } elsif ($request eq 'SH' || $request eq 'SS') {
            $flush->();
            ($item, @indent) = ('', '');
            $head = unescape($rest) if $request eq 'SH';
            push @out, ($request eq 'SH' ? '## ' : '### ') . markup(join ' ', map { unescape($_) } arguments($rest)), '';
        } elsif ($request eq 'PP') {
            $flush->();
            $item = '';
        } elsif ($request eq 'TP' || $request eq 'TQ') {
            $flush->();
            $next = $request eq 'TP' ? 1 : 2;
        } elsif ($request eq 'IP') {
            $flush->();
            if ($rest ne '') {
                push @text, "\3"; # replaced below
                $item = '';
                push @out, "\3";
            } else {
                $item = '  ';
            }
        } elsif ($request eq 'RS') {
            $flush->();
            push @indent, $here->();
            $item = '';
        } elsif ($request eq 'RE') {
            $flush->();
            pop @indent;
            $item = '';
        } elsif ($request eq 'nf') {
            $flush->();
            $literal = 1;
            push @out, $here->() . '```';
        } elsif ($request eq 'TS') {
            $flush->();
            $table = 1;
        } else {
            fail "$file:$.: unknown request .$request\n";
        }
        # a bullet: its text is one paragraph, further ones are indented
        if ($request eq 'IP' && $rest ne '') {
            pop @out;
            @text = ();
            my @para;
            while (defined($line = <>)) {
                chomp $line;
                last if $line =~ /^\.(?:PP|IP|TP|SH|SS|RS|RE|nf|TS)/;
                push @para, $line =~ /^\.([BIR]{1,2}) (.*)/ ? fonts($1, $2) : $line =~ /^\./ ? () : unescape($line);
            }
            push @out, $indent[-1] . '- ' . markup(join ' ', @para), '';
            $item = '  ';
            redo if defined $line;
        }
    }
    $flush->();
    my $md = join("\n", @out) . "\n";
    $md =~ s/\n{3,}/\n\n/g;
    # lists without blank lines between one-line items
    1 while $md =~ s/(^( *)- [^\n]*)\n\n(?=\2- )/$1\n/mg;
    $md =~ s/\n+\z/\n/;
    return $md;
}

sub put {
    my ($name, $text) = @_;
    open my $f, '>', "$to/$name" or fail "$to/$name: $!\n";
    print $f $text;
    close $f or fail "$to/$name: $!\n";
}

mkdir $to;
put("$_.md", "<!-- Generated by \"make docs\" from man/$_; do not edit. -->\n" . convert($page{$_}, $_ =~ s/\.(\d)$/($1)/r))
    for sort keys %page;

my $index = "<!-- Generated by \"make docs\"; do not edit. -->\n# Manual\n\n"
    . "The man pages, to be read without `man`. To find a program by what you want to do, see\n"
    . "[Tasks](voxpipe.7.md#tasks).\n";
for (['Concepts and formats', qr/\.[57]$/], ['Computed tomography', qr/^ct-.*\.1$/],
     ['Images and volumes', qr/^img-.*\.1$/], ['The toolkit', qr/^voxpipe\.1$/]) {
    my ($title, $re) = @$_;
    $index .= "\n## $title\n\n| page | purpose |\n|---|---|\n";
    for my $p (sort grep { $_ =~ $re } keys %page) {
        my $n = $p =~ s/\.(\d)$/($1)/r;
        $index .= "| [$n]($p.md) | $summary{$n} |\n";
    }
}
put('README.md', $index);
